// Base64, as in key files and known_hosts.
#pragma once

#include <span>
#include <string>

#include <openssl/evp.h>

namespace paddle::remote {

inline std::string base64(std::span<const unsigned char> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  text.resize(
      static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                               bytes.data(), static_cast<int>(bytes.size()))));
  return text;
}

}  // namespace paddle::remote
