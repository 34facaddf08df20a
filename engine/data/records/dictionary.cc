#include "engine/data/records/dictionary.h"

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/data/records/lines.h"

namespace paddle::data {

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;

Result<Dictionary> Dictionary::read(const std::string& path) {
  Dictionary dictionary;
  PADDLE_TRY(std::string bytes, read_file(path, kDictionaryBytesMax));
  const std::string text = text_of_lines(std::move(bytes));
  Lines lines(text);
  std::string last;
  while (const auto line = lines.next()) {
    last = *line;
    const auto [at, is_new] = dictionary.ids_.emplace(last, dictionary.ids_.size());
    if (!is_new) {
      return Error{Errc::kData,
                   fmt::format("{}:{}: '{}' is already on line {}", path, lines.number() + 1,
                               escape_control(last), at->second + 1)};
    }
  }
  if (last != "<unk>") {
    return Error{Errc::kData, fmt::format("{}: the last line is not <unk>", path),
                 "words that are not in the dictionary get the last line's id"};
  }
  return dictionary;
}

}  // namespace paddle::data
