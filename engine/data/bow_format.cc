#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

// Lines "label<TAB>words".
class Bow final : public Format {
 public:
  Bow(const config::DataConfig& data, const Dictionary& dictionary)
      : label_(data), dictionary_(dictionary) {}

  Status parse(std::string_view line, RecordBlock& block) override {
    if (is_blank(line)) return {};
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      return Error{Errc::kData, "not of the form label<TAB>words",
                   "texts for predictions have a label too, any one: sed 's/^/0\\t/' OLD >NEW"};
    }
    const RecordBlock::Extent begin = block.end();
    const std::string_view label = line.substr(0, tab);
    line.remove_prefix(tab + 1);
    for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
      block.ids.push_back(dictionary_.id(word));
    }
    block.counts.push_back(static_cast<std::uint32_t>(block.ids.size() - begin.id));
    PADDLE_TRY_STATUS(label_.append(label, block));
    block.add_record(begin);
    return {};
  }

 private:
  LabelReader label_;
  const Dictionary& dictionary_;
};

}  // namespace

std::unique_ptr<Format> make_bow(const config::DataConfig& data, const Dictionary& dictionary) {
  return std::make_unique<Bow>(data, dictionary);
}

}  // namespace paddle::data
