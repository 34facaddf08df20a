// Decompressed bytes of another source.
#pragma once

#include "engine/data/source/byte_source.h"

namespace paddle::data {

// `path` is for messages. A file that ends inside a member or frame, or fails its checksum, is
// kData; an empty file has no bytes.
Result<std::unique_ptr<ByteSource>> open_gzip(std::unique_ptr<ByteSource> from, std::string path);
Result<std::unique_ptr<ByteSource>> open_zstd(std::unique_ptr<ByteSource> from, std::string path);

}  // namespace paddle::data
