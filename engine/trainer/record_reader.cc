#include "engine/trainer/record_reader.h"

#include <charconv>

#include <fmt/format.h>

#include "engine/base/text.h"

namespace paddle::trainer {
namespace {

constexpr std::string_view kWhitespace = " \t\v\f";
constexpr std::size_t kShownBytes = 40;  // of a wrong label

}  // namespace

void RecordReader::append_ids(std::string_view text, Record& ids) const {
  for (std::size_t begin = text.find_first_not_of(kWhitespace); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kWhitespace, begin), text.size());
    ids.push_back(dictionary_.id(text.substr(begin, end - begin)));
    begin = text.find_first_not_of(kWhitespace, end);
  }
}

Status RecordReader::read_bow(std::string_view line, Record& record) const {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) {
    return Error{Errc::kData, lines_.place() + ": not of the form label<TAB>tokens", ""};
  }
  std::uint64_t label = 0;
  const auto [at, error] = std::from_chars(line.data(), line.data() + tab, label);
  if (error != std::errc() || at != line.data() + tab || tab == 0) {
    const std::string shown = escape_control(line.substr(0, std::min(tab, kShownBytes)));
    return Error{
        Errc::kData,
        fmt::format("{}: the label '{}' is not a whole number from 0", lines_.place(), shown), ""};
  }
  append_ids(line.substr(tab + 1), record);
  record.push_back(label);
  return {};
}

Result<bool> RecordReader::read_any(Record& record) {
  const std::size_t n = options_.data.ngram;
  const bool is_ngram = options_.data.format == "ngram";
  for (;;) {
    if (is_ngram && window_ + n <= sentence_.size()) {
      const auto begin = sentence_.begin() + static_cast<std::ptrdiff_t>(window_++);
      record.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
      return true;
    }
    PADDLE_TRY(const auto line, lines_.next());
    if (!line) return false;
    if (line->find_first_not_of(kWhitespace) == std::string_view::npos) continue;
    if (!is_ngram) {
      record.clear();
      PADDLE_TRY_STATUS(read_bow(*line, record));
      return true;
    }
    sentence_.assign(1, dictionary_.id("<s>"));
    append_ids(*line, sentence_);
    sentence_.push_back(dictionary_.id("<e>"));
    window_ = 0;
  }
}

Result<bool> RecordReader::next(Record& record) {
  for (;;) {
    PADDLE_TRY(const bool found, read_any(record));
    if (!found) return false;
    const std::uint64_t index = index_++;
    if (!options_.share.records_split || index % options_.num_trainers == options_.trainer_id) {
      return true;
    }
  }
}

}  // namespace paddle::trainer
