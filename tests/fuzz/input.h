// A fuzzer's bytes as the decisions of a target: numbers, choices and bytes. Where they end, zeros
// follow.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace paddle::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return left_.empty(); }
  std::size_t size() const { return left_.size(); }
  std::uint8_t byte() {
    const std::string_view one = text(1);
    return one.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(one[0]);
  }
  bool flag() { return (byte() & 1U) != 0; }
  // True in `count` of 256 cases, never once the bytes have ended.
  bool rarely(unsigned count) { return byte() > 255 - count; }
  std::uint8_t below(unsigned limit) { return static_cast<std::uint8_t>(byte() % limit); }
  template <class T, std::size_t N>
  T choice(const std::array<T, N>& values) {
    return values[byte() % N];
  }
  // A small number, or one at the edge of a width, or any.
  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 16> kEdges = {
        8,           16,          28,          100,         255,
        65535,       1U << 20U,   1U << 31U,   ~0U,         (1ULL << 48U) - 1,
        1ULL << 32U, 1ULL << 40U, 1ULL << 61U, 1ULL << 62U, 1ULL << 63U,
        ~0ULL};
    const std::uint8_t kind = byte();
    if (kind < 220) return kind % 6;
    if (kind < 250) return choice(kEdges);
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }
  // Mostly from -1 to 1, sometimes as large, small or undefined as a float can be.
  float real() {
    constexpr std::array<float, 6> kEdges = {0,
                                             3e38F,
                                             -3e38F,
                                             1e-45F,
                                             std::numeric_limits<float>::quiet_NaN(),
                                             std::numeric_limits<float>::infinity()};
    const std::uint8_t kind = byte();
    return kind < 224 ? (static_cast<float>(kind) - 112) / 112 : choice(kEdges);
  }
  // At most `size` of the bytes that are left.
  std::string_view text(std::size_t size) {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return text(left_.size()); }
  // Up to the separator, which is left out.
  std::string_view text_until(char separator) {
    const std::string_view taken = text(std::min(left_.find(separator), left_.size()));
    text(1);
    return taken;
  }

 private:
  std::string_view left_;
};

// Texts that are large because a part of them is repeated: "#*BEGIN,END" on the first line repeats
// these bytes of what follows until it has kGrownBytes. Other texts are themselves. What takes time
// or memory by the square of its input is slow only in large ones.
constexpr std::size_t kGrownBytes = 256U << 10U;
inline std::string grown(std::string_view text) {
  if (!text.starts_with("#*")) return std::string(text);
  const std::size_t line_end = std::min(text.find('\n'), text.size());
  Input head(reinterpret_cast<const std::uint8_t*>(text.data()) + 2, line_end - 2);
  const auto number = [&](char separator) {
    std::size_t value = 0;
    for (const char c : head.text_until(separator).substr(0, 6))
      value = value * 10 + static_cast<unsigned char>(c) % 16U;
    return value;
  };
  const std::string_view rest = text.substr(std::min(line_end + 1, text.size()));
  const std::size_t begin = std::min(number(','), rest.size());
  const std::size_t end = std::max(begin, std::min(number('\n'), rest.size()));
  std::string all(rest.substr(0, end));
  while (end > begin && all.size() < kGrownBytes) all += rest.substr(begin, end - begin);
  return all += rest.substr(end);
}

}  // namespace paddle::fuzz

// One target. libFuzzer calls it, and corpus_test.cc does.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
