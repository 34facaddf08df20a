#include "engine/data/records/fields.h"
#include "engine/data/records/format.h"

namespace paddle::data {
namespace {

// Lines "label index:value ... # comment"; "qid:n" is ignored.
class LibSvm final : public Format {
 public:
  explicit LibSvm(const config::DataConfig& data)
      : float_label_(data.float_label), buckets_(data.buckets) {}

  Status parse(std::string_view line, RecordBlock& block) override {
    line = line.substr(0, line.find('#'));
    std::string_view word = take_word(line);
    if (word.empty()) return {};
    const RecordBlock::Extent begin = block.end();
    PADDLE_TRY_STATUS(append_label(word, float_label_, block));
    std::uint32_t count = 0;
    for (word = take_word(line); !word.empty(); word = take_word(line)) {
      const std::size_t colon = word.find(':');
      if (colon == std::string_view::npos) return wrong_field("the feature", word, "index:value");
      const std::string_view index = word.substr(0, colon);
      if (index == "qid") continue;
      std::uint64_t& id = block.ids.emplace_back();
      PADDLE_TRY_STATUS(parse_id(index, "the index", id));
      if (buckets_ > 0) id %= buckets_;
      PADDLE_TRY_STATUS(
          parse_float(word.substr(colon + 1), "the value", block.values.emplace_back()));
      ++count;
    }
    block.counts.push_back(count);
    block.add_record(begin);
    return {};
  }

 private:
  bool float_label_;
  std::uint64_t buckets_;
};

}  // namespace

std::unique_ptr<Format> make_libsvm(const config::DataConfig& data,
                                    const Dictionary& /*dictionary*/) {
  return std::make_unique<LibSvm>(data);
}

}  // namespace paddle::data
