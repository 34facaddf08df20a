#include "engine/net/peer/lent_array.h"

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

}  // namespace paddle::net::peer
