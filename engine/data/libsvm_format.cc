#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

// Lines "label index:value ... # comment"; "qid:n" is ignored.
class LibSvm final : public Format {
 public:
  explicit LibSvm(const config::DataConfig& data) : label_(data), buckets_(data.buckets) {}

  Status parse(std::string_view line, RecordBlock& block) override {
    line = line.substr(0, line.find('#'));
    std::string_view word = take_word(line);
    if (word.empty()) return {};
    const RecordBlock::Extent begin = block.end();
    if (Status good = label_.append_signed(word, block); !good)
      return no_label(word, std::move(good).error());
    std::uint32_t count = 0;
    for (word = take_word(line); !word.empty(); word = take_word(line)) {
      const std::size_t colon = word.find(':');
      if (colon == std::string_view::npos) return no_feature(word);
      const std::string_view index = word.substr(0, colon);
      if (index == "qid") continue;
      std::uint64_t& id = block.ids.emplace_back();
      PADDLE_TRY_STATUS(parse_id(index, "the index", id));
      if (buckets_ > 0) id %= buckets_;
      const std::string_view value = word.substr(colon + 1);
      if (Status good = parse_float(value, "the value", block.values.emplace_back()); !good)
        return value.find(':') == value.npos ? std::move(good).error() : of_fields(word);
      ++count;
    }
    block.counts.push_back(count);
    block.add_record(begin);
    return {};
  }

  void set_classes(std::uint64_t count) override { label_.set_classes(count); }

 private:
  static Error no_label(std::string_view word, Error error) {
    if (word.find(':') != std::string_view::npos) {
      error = wrong_field(
          "the label", word,
          "a number: it is index:value, so the label is missing, or has a weight as in XGBoost");
      error.hint =
          "put a label first, any one for predictions: sed 's/^/0 /' OLD >NEW; weights: "
          "sed -E 's/^([^:[:blank:]]+):[^[:blank:]]+/\\1/' OLD >NEW";
    } else if (word.find(',') != std::string_view::npos) {
      error.hint = "for lines with commas set format = \"csv\"";
    }
    return error;
  }
  static Error no_feature(std::string_view word) {
    Error error = wrong_field("the feature", word, "index:value");
    if (word.starts_with('|')) {
      error.message += ": the file has the format of Vowpal Wabbit";
    } else if (float value = 0; parse_float(word, "", value)) {
      error.hint = "for numbers between blanks set format = \"csv\" with delimiter = \" \"";
    }
    return error;
  }
  static Error of_fields(std::string_view word) {
    Error error = wrong_field("the feature", word,
                              "index:value: it is field:index:value, as in files of libffm");
    error.hint = "leave the fields out: sed -E 's/([[:blank:]])[0-9]+:([0-9]+:)/\\1\\2/g' OLD >NEW";
    return error;
  }

  LabelReader label_;
  std::uint64_t buckets_;
};

}  // namespace

std::unique_ptr<Format> make_libsvm(const config::DataConfig& data,
                                    const Dictionary& /*dictionary*/) {
  return std::make_unique<LibSvm>(data);
}

}  // namespace paddle::data
