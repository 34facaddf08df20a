#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

constexpr std::size_t kFields = 1 + config::kCriteoIntegers + config::kCriteoCategories;

// Lines of the Criteo challenge: label, 13 integers and 26 categories of hexadecimal digits,
// separated by tabs; all but the label may be missing. An integer x becomes log(1 + max(x, 0)), and
// a missing integer becomes 0. A missing category is a category of its own.
class Criteo final : public Format {
 public:
  explicit Criteo(const config::DataConfig& data) : label_(data) {
    for (std::uint32_t i = 1; i <= config::kCriteoCategories; ++i) {
      hashes_.emplace_back(fmt::format("C{}", i), data.buckets);
    }
  }

  Status parse(std::string_view line, RecordBlock& block) override {
    if (line.empty()) return {};
    const auto tabs = static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t'));
    if (tabs + 1 != kFields) return wrong_count(tabs + 1);
    const RecordBlock::Extent begin = block.end();
    PADDLE_TRY_STATUS(label_.append_signed(take_field(line, '\t'), block));
    for (std::uint32_t i = 1; i <= config::kCriteoIntegers; ++i) {
      PADDLE_TRY_STATUS(append_integer(take_field(line, '\t'), i, block));
    }
    for (const SlotHash& hash : hashes_) block.ids.push_back(hash(take_field(line, '\t')));
    block.add_record(begin);
    return {};
  }

  void set_classes(std::uint64_t count) override { label_.set_classes(count); }

 private:
  static Error wrong_count(std::size_t fields) {
    Error wrong{Errc::kData, fmt::format("{} fields, not {}", fields, kFields)};
    if (fields + 1 == kFields) {
      wrong.message += ": the label is missing, as in the challenge's test.txt";
      wrong.hint = "any label will do for predictions: sed 's/^/0\\t/' OLD >NEW";
    }
    return wrong;
  }

  static Status append_integer(std::string_view text, std::uint32_t number, RecordBlock& block) {
    // The limit is that of signed 64-bit numbers.
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    const bool is_negative = text.starts_with('-');
    std::uint64_t size = 0;
    if (!text.empty() && (!read_whole(text.substr(is_negative ? 1 : 0), size) || size > kMax))
      return wrong_field(fmt::format("I{}", number), text, "a whole number");
    block.values.push_back(is_negative || size == 0 ? 0.0F : logarithm(size + 1));
    return {};
  }

  LabelReader label_;
  std::vector<SlotHash> hashes_;
};

}  // namespace

std::unique_ptr<Format> make_criteo(const config::DataConfig& data,
                                    const Dictionary& /*dictionary*/) {
  return std::make_unique<Criteo>(data);
}

}  // namespace paddle::data
