#include "engine/trainer/dictionary.h"

#include <fmt/format.h>

#include "engine/base/text.h"
#include "engine/trainer/line_reader.h"

namespace paddle::trainer {

Result<Dictionary> Dictionary::read(const std::string& path) {
  Dictionary dictionary;
  LineReader lines({path});
  std::string last;
  for (;;) {
    PADDLE_TRY(const auto line, lines.next());
    if (!line) break;
    last = *line;
    const auto [at, is_new] = dictionary.ids_.emplace(last, dictionary.ids_.size());
    if (!is_new) {
      return Error{Errc::kData,
                   fmt::format("{}: '{}' is already on line {}", lines.place(),
                               escape_control(last), at->second + 1),
                   ""};
    }
  }
  if (last != "<unk>") {
    return Error{Errc::kData, fmt::format("{}: the last line is not <unk>", path),
                 "words that are not in the dictionary get the last line's id"};
  }
  return dictionary;
}

}  // namespace paddle::trainer
