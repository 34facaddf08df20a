#include "engine/data/format.h"

#include <algorithm>
#include <array>

#include "engine/data/fields.h"

namespace paddle::data {
namespace {

struct Parser {
  std::string_view format;
  std::unique_ptr<Format> (*make)(const config::DataConfig& data, const Dictionary& dictionary);
};

constexpr std::array<Parser, 7> kParsers{{{"ngram", make_ngram},
                                          {"bow", make_bow},
                                          {"multislot", make_multislot},
                                          {"libsvm", make_libsvm},
                                          {"csv", make_csv},
                                          {"criteo", make_criteo},
                                          {"jsonl", make_jsonl}}};

}  // namespace

std::unique_ptr<Format> make_format(const config::DataConfig& data, const Dictionary& dictionary) {
  const auto* const parser = std::ranges::find(kParsers, data.format, &Parser::format);
  PADDLE_CHECK(parser != kParsers.end());
  return parser->make(data, dictionary);
}

Status LabelReader::append(std::string_view text, RecordBlock& block) const {
  if (as_float_) return parse_float(text, "the label", block.values.emplace_back());
  std::uint64_t& label = block.ids.emplace_back(0);
  if (!names_.empty()) return names_.parse(text, "the label", label);
  return parse_id(text, "the label", label, kLabelHint);
}

Status LabelReader::append_signed(std::string_view text, RecordBlock& block) const {
  std::uint64_t size = 0;
  const bool is_of_two = !as_float_ && names_.empty() && classes_ <= 2 && classes_ > 0;
  if (is_of_two && text.starts_with('-') && read_whole(text.substr(1), size) && size == 1) {
    block.zero_label = ZeroLabel::kMinusOne;
    block.ids.push_back(0);
    return {};
  }
  Status appended = append(text, block);
  if (appended && is_of_two && block.ids.back() == 0) block.zero_label = ZeroLabel::kZero;
  if (appended || classes_ > 0 || as_float_) return appended;
  Error error = std::move(appended).error();
  error.hint = "for regression set [data] label = \"float\"";
  return error;
}

}  // namespace paddle::data
