// Writer of npz files, right ones and wrong ones.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <minizip/zip.h>

namespace paddle::data {

// An array in the npy format: `descr` and `shape` as Python writes them.
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       const std::string& order = "False") {
  std::string header =
      "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  std::string array("\x93NUMPY\x01\x00", 8);
  array += static_cast<char>(header.size() & 0xffU);
  array += static_cast<char>(header.size() >> 8U);
  return array + header + data;
}

template <class T>
std::string bytes_of_numbers(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// An array of one dimension, or with `width` of two.
template <class T>
std::string npy_of(const std::string& descr, const std::vector<T>& numbers, std::size_t width = 0) {
  const std::string shape =
      width == 0 ? std::to_string(numbers.size()) + ","
                 : std::to_string(numbers.size() / width) + ", " + std::to_string(width);
  return npy("'" + descr + "'", "(" + shape + ")", bytes_of_numbers(numbers));
}

// Writes the members in the order of their names, deflated at this level, or stored at level 0.
inline void write_zip(const std::string& path, const std::map<std::string, std::string>& members,
                      int level = 0, const char* password = nullptr) {
  const zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  ASSERT_NE(zip, nullptr);
  for (const auto& [name, bytes] : members) {
    const uLong crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    ASSERT_EQ(::zipOpenNewFileInZip3_64(zip, name.c_str(), nullptr, nullptr, 0, nullptr, 0, nullptr,
                                        level == 0 ? 0 : Z_DEFLATED, level, 0, -MAX_WBITS,
                                        DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, password, crc, 1),
              ZIP_OK);
    ASSERT_EQ(::zipWriteInFileInZip(zip, bytes.data(), static_cast<unsigned>(bytes.size())),
              ZIP_OK);
    ASSERT_EQ(::zipCloseFileInZip(zip), ZIP_OK);
  }
  ASSERT_EQ(::zipClose(zip, nullptr), ZIP_OK);
}

}  // namespace paddle::data
