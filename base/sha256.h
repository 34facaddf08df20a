// SHA-256 (FIPS 180-4): the identity of every file that travels.
#pragma once

#include <array>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(ByteSpan data);
  Sha256Digest finish();  // once; the object is of no use afterwards

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of everything from the descriptor's current position to its end.
Result<Sha256Digest> sha256_of_fd(int fd);
Result<Sha256Digest> sha256_of_file(const std::string& path);

}  // namespace paddle
