// Source that a program prints, given a file: any program can be a reader.
#pragma once

#include "base/fd.h"
#include "engine/data/source/byte_source.h"

namespace paddle::data {

// Starts options.pipe_command in options.folder with `file` as its standard input, without a shell,
// in a process group of its own. The source ends with its output, once it has exited with 0. kData:
// another code, a signal, or silence for longer than options.pipe_timeout. The program does not
// outlive the source, nor the thread that called this.
Result<std::unique_ptr<ByteSource>> open_pipe(UniqueFd file, const std::string& path,
                                              const SourceOptions& options);

}  // namespace paddle::data
