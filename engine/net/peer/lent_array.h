// An array that other processes of this host may read where it is, while their owner lets them: in
// a shared file, behind a page that begins with a token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/net/shared_segment.h"
#include "proto/frame.h"

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

// Tails that a rank lends to another one of its host: a frame tells where it lies in an array of
// the sender, and the receiver reads it there. PROTOCOL.md has the bytes.

// Of the flags of a frame whose tail is lent. The head is that of lent_head(), there is no tail.
constexpr std::uint16_t kTailIsLent = 0x8000;
constexpr std::size_t kLentHeadBytes = kLentOfferBytes + 8 + 8;  // offer, offset, size
// Shorter tails are copied: that takes less than waiting until the peer has read them.
constexpr std::size_t kLentTailBytesMin = 128U << 10U;
constexpr std::size_t kArraysOfPeerMax = 16;

// The part of the array, which contains it.
std::string lent_head(const LentArray& array, ByteSpan part);

// The size of the part, as the head tells it.
std::uint64_t lent_bytes(std::string_view head);

// The arrays that a peer has lent, from its first mention of each on.
class ArraysOfPeer {
 public:
  // The part that a head of kLentHeadBytes tells of. kData: outside of its array, or of too many
  // arrays; else as of LentArray::open().
  Result<ByteSpan> find(std::string_view head);

 private:
  std::vector<LentArray> arrays_;
};

}  // namespace paddle::net::peer
