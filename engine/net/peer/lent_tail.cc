#include "engine/net/peer/lent_tail.h"

#include <algorithm>

namespace paddle::net::peer {

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
