#include "engine/data/records/fields.h"
#include "engine/data/records/format.h"

namespace paddle::data {
namespace {

// Lines "label<TAB>words".
class Bow final : public Format {
 public:
  explicit Bow(const Dictionary& dictionary) : dictionary_(dictionary) {}

  Status parse(std::string_view line, RecordBlock& block) override {
    if (is_blank(line)) return {};
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      return Error{Errc::kData, "not of the form label<TAB>words"};
    }
    const RecordBlock::Extent begin = block.end();
    std::uint64_t label = 0;
    PADDLE_TRY_STATUS(parse_id(line.substr(0, tab), "the label", label, kLabelHint));
    line.remove_prefix(tab + 1);
    for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
      block.ids.push_back(dictionary_.id(word));
    }
    block.counts.push_back(static_cast<std::uint32_t>(block.ids.size() - begin.id));
    block.ids.push_back(label);
    block.add_record(begin);
    return {};
  }

 private:
  const Dictionary& dictionary_;
};

}  // namespace

std::unique_ptr<Format> make_bow(const config::DataConfig& /*data*/, const Dictionary& dictionary) {
  return std::make_unique<Bow>(dictionary);
}

}  // namespace paddle::data
