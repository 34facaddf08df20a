// An array in a shared file that other processes of this host may read in place, until its owner
// revokes that. The array begins behind the file's first page, which begins with a token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/net/shared_segment.h"
#include "proto/frame.h"

namespace paddle::net::peer {

// Size of an offer: offer_of() the file, then the token.
constexpr std::size_t kLentOfferBytes = kFileOfferBytes + kNonceBytes;

class LentArray {
 public:
  LentArray() = default;
  // Creates an array of zeros. kResource.
  static Result<LentArray> create(std::size_t bytes);
  // Opens an array that a peer offers, read-only. Errors: those of open_shared_file(), and kAuth if
  // it is not the array of the offer.
  static Result<LentArray> open(ByteSpan offer);
  LentArray(LentArray&& other) noexcept
      : fd_(std::move(other.fd_)), file_(std::exchange(other.file_, {})) {}
  LentArray& operator=(LentArray&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~LentArray();

  Bytes offer() const;  // only for an array from create()
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

// Tails that a rank lends to another rank of its host: a frame contains the position of its tail in
// an array of the sender, and the receiver reads it there. PROTOCOL.md specifies the bytes.

// The flag of a frame whose tail is lent. Its head is the result of lent_head(), and its own tail
// is empty.
constexpr std::uint16_t kTailIsLent = 0x8000;
constexpr std::size_t kLentHeadBytes = kLentOfferBytes + 8 + 8;  // offer, offset, size
// Shorter tails are copied, which takes less time than waiting until the peer has read them.
constexpr std::size_t kLentTailBytesMin = 128U << 10U;
constexpr std::size_t kArraysOfPeerMax = 16;

// The head of a frame that lends `part`. REQUIRES: array.contains(part).
std::string lent_head(const LentArray& array, ByteSpan part);

// The size of the lent tail, read from the head.
std::uint64_t lent_bytes(std::string_view head);

// The arrays that a peer has lent. Each is opened when a frame first refers to it, and stays open.
class ArraysOfPeer {
 public:
  // The lent tail that a head of kLentHeadBytes describes. kData: it is not within its array, or
  // the peer lends too many arrays; and the errors of LentArray::open().
  Result<ByteSpan> find(std::string_view head);

 private:
  std::vector<LentArray> arrays_;
};

}  // namespace paddle::net::peer
