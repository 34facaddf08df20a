// Sources that decompress the bytes of another source.
#pragma once

#include "engine/data/source/byte_source.h"

namespace paddle::data {

// `path` is for messages. kData: the file ends inside a member or frame, or its checksum is wrong.
// An empty file has no bytes.
Result<std::unique_ptr<ByteSource>> open_gzip(std::unique_ptr<ByteSource> from, std::string path);
Result<std::unique_ptr<ByteSource>> open_zstd(std::unique_ptr<ByteSource> from, std::string path);

}  // namespace paddle::data
