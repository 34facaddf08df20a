#include "engine/data/records/format.h"

#include <algorithm>
#include <array>

#include "engine/data/records/fields.h"

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

Status append_label(std::string_view text, bool as_float, RecordBlock& block) {
  if (as_float) return parse_float(text, "the label", block.values.emplace_back());
  std::uint64_t& label = block.ids.emplace_back(0);
  if (text == "-1") return {};
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_id(text, "the label", label, kLabelHint);
}

}  // namespace paddle::data
