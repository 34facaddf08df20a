// File of one dense parameter in the format of PaddlePaddle v0.10: int32 0, uint32 4 (bytes of a
// value), uint64 count, then count float32, all little-endian, row-major.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle::snapshot {

constexpr std::size_t kParameterFileHeaderBytes = 16;

std::array<std::byte, kParameterFileHeaderBytes> parameter_file_header(std::uint64_t count);

// kData unless it is v0.10's float32 header of exactly `expected_count` elements.
Status check_parameter_file_header(std::span<const std::byte, kParameterFileHeaderBytes> header,
                                   std::uint64_t expected_count);

// Reads a file without a MANIFEST beside it, such as one written by v0.10. kData names the file,
// the expected and the found.
Result<std::vector<float>> read_v010_parameter(const std::string& path,
                                               std::uint64_t expected_count);

}  // namespace paddle::snapshot
