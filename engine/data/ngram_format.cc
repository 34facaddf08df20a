#include "engine/data/fields.h"
#include "engine/data/format.h"

namespace paddle::data {
namespace {

// Sentences, one per line: each window of n ids over "<s> words <e>" is a record.
class Ngram final : public Format {
 public:
  Ngram(const config::DataConfig& data, const Dictionary& dictionary)
      : words_(data.ngram),
        dictionary_(dictionary),
        begin_(dictionary.id("<s>")),
        end_(dictionary.id("<e>")) {}

  Status parse(std::string_view line, RecordBlock& block) override {
    std::string_view word = take_word(line);
    if (word.empty()) return {};
    RecordBlock::Extent extent = block.end();
    block.ids.push_back(begin_);
    for (; !word.empty(); word = take_word(line)) block.ids.push_back(dictionary_.id(word));
    block.ids.push_back(end_);
    for (extent.ids = words_; extent.id + words_ <= block.ids.size(); ++extent.id) {
      block.records.push_back(extent);
    }
    return {};
  }

 private:
  std::uint32_t words_;
  const Dictionary& dictionary_;
  std::uint64_t begin_, end_;
};

}  // namespace

std::unique_ptr<Format> make_ngram(const config::DataConfig& data, const Dictionary& dictionary) {
  return std::make_unique<Ngram>(data, dictionary);
}

}  // namespace paddle::data
