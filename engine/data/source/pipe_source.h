// What a program prints when it is given a file: any program is a reader.
#pragma once

#include "base/fd.h"
#include "engine/data/source/byte_source.h"

namespace paddle::data {

// Starts options.pipe_command in options.folder, `file` its standard input, a process group of its
// own; no shell. The end of its output is the end of the source once it has exited with 0: another
// code, a signal, or silence for longer than options.pipe_timeout is kData and names the command
// and the file. It does not outlive the source, nor the thread that called this.
Result<std::unique_ptr<ByteSource>> open_pipe(UniqueFd file, const std::string& path,
                                              const SourceOptions& options);

}  // namespace paddle::data
