// Buffers of raw bytes and little-endian fixed-width fields.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace paddle {

static_assert(std::endian::native == std::endian::little,
              "the wire and file formats are little-endian");

// An allocator that leaves trivially constructible elements uninitialised on resize(), because the
// caller overwrites the buffer anyway.
template <class T>
class DefaultInitAllocator : public std::allocator<T> {
 public:
  template <class U>
  struct rebind {
    using other = DefaultInitAllocator<U>;
  };
  DefaultInitAllocator() = default;
  template <class U>
  DefaultInitAllocator(const DefaultInitAllocator<U>&) {}  // NOLINT: rebinding is implicit
  template <class U>
  void construct(U* p) noexcept(std::is_nothrow_default_constructible_v<U>) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    std::construct_at(p, std::forward<Args>(args)...);
  }
};

using Bytes = std::vector<std::byte, DefaultInitAllocator<std::byte>>;
using ByteSpan = std::span<const std::byte>;

inline ByteSpan as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
ByteSpan bytes_of(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const std::byte*>(values.data()), values.size_bytes()};
}

template <class T>
T load_le(const std::byte* from) {
  static_assert(std::is_integral_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store_le(std::byte* to, T value) {
  static_assert(std::is_integral_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
void append_le(Bytes& to, T value) {
  to.resize(to.size() + sizeof(T));
  store_le(to.data() + to.size() - sizeof(T), value);
}

template <class T>
void append_bytes(Bytes& to, std::span<const T> values) {
  // With a custom allocator, std::vector's insert() and growth would copy one byte at a time.
  const std::size_t begin = to.size();
  const std::size_t size = begin + values.size_bytes();
  if (size > to.capacity()) {
    Bytes grown;
    grown.reserve(std::max(size, 2 * to.capacity()));
    grown.resize(begin);
    if (begin > 0) std::memcpy(grown.data(), to.data(), begin);
    to = std::move(grown);
  }
  to.resize(size);
  if (!values.empty()) std::memcpy(to.data() + begin, values.data(), values.size_bytes());
}

}  // namespace paddle
