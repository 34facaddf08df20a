#include "engine/net/lent_array.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "engine/net/socket.h"

namespace paddle::net::peer {

LentArray::~LentArray() {
  if (!file_.empty()) ::munmap(file_.data(), file_.size());
}

Status LentArray::map(std::size_t bytes, int protection) {
  void* const at = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (at == MAP_FAILED) return system_error(Errc::kResource, "mmap");
  file_ = {static_cast<std::byte*>(at), bytes};
  return {};
}

Result<LentArray> LentArray::create(std::size_t bytes) {
  LentArray array;
  PADDLE_TRY(array.fd_, create_shared_file("paddle-array", kPageBytes + bytes));
  PADDLE_TRY_STATUS(array.map(kPageBytes + bytes, PROT_READ | PROT_WRITE));
  PADDLE_TRY_STATUS(seal_file(array.fd_, true));
  PADDLE_TRY(const auto token, random_nonce());
  std::ranges::copy(token, array.file_.begin());
  return array;
}

Bytes LentArray::offer() const {
  Bytes offer = offer_of(fd_);
  append_bytes(offer, token());
  return offer;
}

Result<LentArray> LentArray::open(ByteSpan offer) {
  const Error refused{Errc::kAuth, "shared memory: not the array that is offered"};
  if (offer.size() != kLentOfferBytes) return refused;
  PADDLE_TRY(SharedFile file, open_shared_file(offer.first(kFileOfferBytes), O_RDONLY));
  if (file.bytes <= kPageBytes) return refused;
  LentArray array;
  array.fd_ = std::move(file.fd);
  PADDLE_TRY_STATUS(array.map(file.bytes, PROT_READ));
  array.fd_.reset();
  if (!std::ranges::equal(array.token(), offer.subspan(kFileOfferBytes))) return refused;
  return array;
}

std::string lent_head(const LentArray& array, ByteSpan part) {
  PADDLE_CHECK(array.contains(part));
  Bytes head = array.offer();
  head.resize(kLentHeadBytes);
  store_le(head.data() + kLentOfferBytes,
           static_cast<std::uint64_t>(part.data() - array.bytes().data()));
  store_le(head.data() + kLentOfferBytes + 8, static_cast<std::uint64_t>(part.size()));
  return {reinterpret_cast<const char*>(head.data()), head.size()};
}

std::uint64_t lent_bytes(std::string_view head) {
  PADDLE_CHECK(head.size() == kLentHeadBytes);
  return load_le<std::uint64_t>(as_bytes(head).data() + kLentOfferBytes + 8);
}

Result<ByteSpan> ArraysOfPeer::find(std::string_view head) {
  const std::uint64_t size = lent_bytes(head);
  const ByteSpan bytes = as_bytes(head);
  const ByteSpan offer = bytes.first(kLentOfferBytes);
  auto array = std::ranges::find_if(arrays_, [&](const LentArray& one) {
    return std::ranges::equal(one.token(), offer.subspan(kFileOfferBytes));
  });
  if (array == arrays_.end()) {
    if (arrays_.size() == kArraysOfPeerMax) return Error{Errc::kData, "too many lent arrays"};
    PADDLE_TRY(LentArray opened, LentArray::open(offer));
    array = arrays_.insert(arrays_.end(), std::move(opened));
  }
  const auto offset = load_le<std::uint64_t>(bytes.data() + kLentOfferBytes);
  const ByteSpan all = array->bytes();
  if (size > all.size() || offset > all.size() - size) {
    return Error{Errc::kData, "a lent tail lies outside of its array"};
  }
  return all.subspan(offset, size);
}

}  // namespace paddle::net::peer
