#include <charconv>

#include <fmt/format.h>

#include "engine/data/records/fields.h"
#include "engine/data/records/format.h"
#include "engine/data/records/logarithm.h"

namespace paddle::data {
namespace {

constexpr std::size_t kFields = 1 + config::kCriteoIntegers + config::kCriteoCategories;

// Lines of the Criteo challenge: label, 13 integers and 26 categories of hexadecimal digits,
// separated by tabs; all but the label may be missing. An integer x becomes log(1 + max(x, 0)), a
// missing one 0; "missing" is a category of its own.
class Criteo final : public Format {
 public:
  explicit Criteo(const config::DataConfig& data) : float_label_(data.float_label) {
    for (std::uint32_t i = 1; i <= config::kCriteoCategories; ++i) {
      hashes_.emplace_back(fmt::format("C{}", i), data.buckets);
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (line.empty()) return {};
    const auto tabs = static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t'));
    if (tabs + 1 != kFields) {
      return Error{Errc::kData, fmt::format("{} fields, not {}", tabs + 1, kFields)};
    }
    const RecordBlock::Extent begin = block.end();
    PADDLE_TRY_STATUS(append_label(take_field(line, '\t'), float_label_, block));
    for (std::uint32_t i = 1; i <= config::kCriteoIntegers; ++i) {
      PADDLE_TRY_STATUS(append_integer(take_field(line, '\t'), i, block));
    }
    for (const SlotHash& hash : hashes_) block.ids.push_back(hash(take_field(line, '\t')));
    block.add_record(begin);
    return {};
  }

 private:
  static Status append_integer(std::string_view text, std::uint32_t number, RecordBlock& block) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (!text.empty() && (error != std::errc() || at != end)) {
      return wrong_field(fmt::format("I{}", number), text, "a whole number");
    }
    block.values.push_back(value <= 0 ? 0.0F : logarithm(static_cast<std::uint64_t>(value) + 1));
    return {};
  }

  bool float_label_;
  std::vector<SlotHash> hashes_;
};

}  // namespace

std::unique_ptr<Format> make_criteo(const config::DataConfig& data,
                                    const Dictionary& /*dictionary*/) {
  return std::make_unique<Criteo>(data);
}

}  // namespace paddle::data
