// Compressed files: a byte for the kind, the bytes, which come in pieces of any size.
#include <array>

#include "base/bytes.h"
#include "engine/data/byte_source.h"
#include "engine/data/file_kind.h"
#include "tests/fuzz/input.h"

using namespace paddle;

namespace {

constexpr std::array<const char*, 4> kNames{"a.gz", "a.zst", "a.bz2", "a.xz"};
constexpr std::size_t kReadMax = 4U << 20U;  // of what a small file may grow to
constexpr std::uint64_t kMemoryMax = 256U << 20U;

class Pieces final : public data::ByteSource {
 public:
  Pieces(std::string_view bytes, std::size_t piece) : left_(bytes), piece_(piece) {}
  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::string_view taken = left_.substr(0, std::min(into.size(), piece_));
    std::ranges::copy(as_bytes(taken), into.begin());
    left_.remove_prefix(taken.size());
    return taken.size();
  }
  std::uint64_t position() const override { return 0; }

 private:
  std::string_view left_;
  std::size_t piece_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::Input input(bytes, size);
  const char* const name = input.choice(kNames);
  const std::size_t piece = 1 + input.byte();
  const std::string_view packed = input.rest();
  static_cast<void>(data::check_is_text(packed));
  const auto source = data::decompressed(std::make_unique<Pieces>(packed, piece), name, kMemoryMax);
  if (!source) return 0;
  std::array<std::byte, 1000> some{};
  for (std::size_t all = 0; all < kReadMax;) {
    const auto count = (*source)->read(some);
    if (!count || *count == 0) break;
    all += *count;
  }
  return 0;
}
