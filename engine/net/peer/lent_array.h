// An array that other processes of this host may read where it is, while their owner lets them: in
// a shared file, behind a page that begins with a token.
#pragma once

#include "engine/net/shared_segment.h"

namespace paddle::net::peer {

// A file's offer, then its token.
constexpr std::size_t kLentOfferBytes = kFileOfferBytes + kNonceBytes;

class LentArray {
 public:
  LentArray() = default;
  // Zeros. kResource.
  static Result<LentArray> create(std::size_t bytes);
  // An array that a peer offers, to be read only. Errors as of open_shared_file().
  static Result<LentArray> open(ByteSpan offer);
  LentArray(LentArray&& other) noexcept
      : fd_(std::move(other.fd_)), file_(std::exchange(other.file_, {})) {}
  LentArray& operator=(LentArray&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~LentArray();

  Bytes offer() const;  // of one that was created
  ByteSpan token() const { return ByteSpan(file_).first(kNonceBytes); }
  std::span<std::byte> bytes() const { return file_.subspan(kPageBytes); }
  bool contains(ByteSpan part) const {
    const auto all = bytes();
    return part.data() >= all.data() && part.data() + part.size() <= all.data() + all.size();
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  Status map(std::size_t bytes, int protection);

  UniqueFd fd_;
  std::span<std::byte> file_;
};

}  // namespace paddle::net::peer
