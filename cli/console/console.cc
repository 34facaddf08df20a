#include "cli/console/console.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr auto kPlainProgressPeriod = std::chrono::seconds(10);

// Colours for the labels of log lines, without red, which is for errors.
constexpr std::array<int, 10> kGroupColours{36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
constexpr std::size_t kGap = 2;                 // between columns
constexpr std::size_t kShortenedColumns = 28;   // width to which a long cell is cut, ...
constexpr std::size_t kShortenedMin = 20;       // ... and further, except the first column
constexpr int kLastDropOrder = 3;               // columns up to this are dropped last
constexpr std::size_t kLogTextColumnsMin = 20;  // minimum beside a label; else no wrapping

bool is_wide(std::uint32_t point) {
  return (point >= 0x1100 && point <= 0x115f) || (point >= 0x2e80 && point <= 0xa4cf) ||
         (point >= 0xac00 && point <= 0xd7a3) || (point >= 0xf900 && point <= 0xfaff) ||
         (point >= 0xfe30 && point <= 0xfe6f) || (point >= 0xff00 && point <= 0xff60) ||
         (point >= 0x1f300 && point <= 0x1faff) || (point >= 0x20000 && point <= 0x3fffd);
}

bool is_combining(std::uint32_t point) {
  return (point >= 0x300 && point <= 0x36f) || point == 0x200d ||
         (point >= 0xfe00 && point <= 0xfe0f);
}

struct Character {
  std::size_t bytes = 0;  // more than the text has, if it ends within the character
  std::size_t columns = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  std::uint32_t point = length == 1 ? lead : lead & (0xffU >> (length + 1));
  for (std::size_t k = 1; k < length && at + k < text.size(); ++k) {
    point = (point << 6U) | (static_cast<unsigned char>(text[at + k]) & 0x3fU);
  }
  return {length, std::size_t{is_combining(point) ? 0U : is_wide(point) ? 2U : 1U}};
}

// The end of the word that begins at `begin`. A "paddlectl ..." command that fits in `room` is one
// word.
std::size_t end_of_word(std::string_view line, std::size_t begin, std::size_t room) {
  const std::size_t word = std::min(line.find(' ', begin), line.size());
  if (!line.substr(begin).starts_with("paddlectl ")) return word;
  const std::size_t command = std::min(line.find_first_of(";,)", begin), line.size());
  return display_width(line.substr(begin, command - begin)) <= room ? command : word;
}

std::size_t indent_of(std::string_view line, std::size_t columns) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  if (gap == line.npos) return first;
  const std::size_t second = line.find_first_not_of(' ', gap);
  return second <= columns / 2 ? second : first;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character next = character_at(text, at);
    width += next.columns;
    at += next.bytes;
  }
  return width;
}

std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t indent) {
  if (columns == 0 || display_width(line) <= columns) return std::string(line);
  std::string text;
  std::size_t used = 0;  // cells used in the row
  bool has_word = false;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    if (begin == line.size()) break;
    const std::size_t end = end_of_word(line, begin, columns - std::min(indent, columns));
    const std::size_t width = display_width(line.substr(begin, end - begin));
    const bool fits = used + (begin - at) + width <= columns;
    if (has_word && !fits) {
      text += '\n' + std::string(indent, ' ');
      used = indent;
    } else {
      text += line.substr(at, begin - at);
      used += begin - at;
    }
    text += line.substr(begin, end - begin);
    used += width;
    has_word = true;
    at = end;
  }
  return text;
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    out += wrapped_line(line, columns, indent_of(line, columns));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string overwritten(std::string_view text) {
  std::string shown;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    while (line.ends_with('\r')) line.remove_suffix(1);
    shown += line.substr(line.rfind('\r') + 1);
    if (end < text.size()) shown += '\n';
    begin = end + 1;
  }
  return shown;
}

void Console::result(std::string_view line) {
  const std::lock_guard lock(mutex_);
  clear_live();
  out_ << wrapped(escape_control(line), options_.columns) << '\n' << std::flush;
}

void Console::raw(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_live();
  out_ << text << std::flush;
}

void Console::note(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (diverted_ != nullptr) return diverted_->push_back(std::string(line));
  clear_live();
  err_ << wrapped(escape_control(line), options_.live_columns) << '\n' << std::flush;
}

void Console::divert_notes(std::vector<std::string>* into) {
  const std::lock_guard lock(mutex_);
  diverted_ = into;
}

void Console::progress(TimePoint now, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (options_.live) {
    // Turns line wrap off meanwhile: a line longer than the terminal would leave a row behind each
    // time.
    err_ << "\r\x1b[K\x1b[?7l" << escape_control(line) << "\x1b[?7h" << std::flush;
    live_shown_ = true;
  } else if (now - last_plain_ >= kPlainProgressPeriod) {
    err_ << escape_control(line) << '\n' << std::flush;
    last_plain_ = now;
  }
}

void Console::end_progress() {
  const std::lock_guard lock(mutex_);
  clear_live();
}

void Console::clear_live() {
  if (live_shown_) err_ << "\r\x1b[K" << std::flush;
  live_shown_ = false;
}

void Console::table(const Table& table) {
  if (options_.json) return json_line(to_json(table));
  const std::lock_guard lock(mutex_);
  clear_live();
  out_ << to_text(table, options_.columns, options_.colour) << std::flush;
}

void Console::labelled(std::size_t group, std::string_view label, std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_live();
  const std::string shown = escape_control(label) + " |";
  if (options_.colour) {
    out_ << fmt::format("\x1b[{}m{}\x1b[0m ", kGroupColours[group % kGroupColours.size()], shown);
  } else {
    out_ << shown << ' ';
  }
  const std::size_t indent = display_width(shown) + 1;
  const std::size_t room = options_.columns - std::min(options_.columns, indent);
  std::string rows = std::string(indent, ' ') + escape_control(text);
  if (room >= kLogTextColumnsMin) rows = wrapped_line(rows, options_.columns, indent);
  out_ << std::string_view(rows).substr(indent) << '\n' << std::flush;
}

void Console::repaint(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_live();
  if (options_.columns == 0) {
    out_ << text << std::flush;
    return;
  }
  // Moves the cursor home, draws each line over the old one, then clears the rows below.
  std::string shown = "\x1b[H";
  std::size_t row = 1;  // the last row stays empty: a line break there would scroll
  for (const char c : text) {
    if (c == '\n' && ++row >= std::max<std::size_t>(2, options_.rows)) break;
    shown += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  }
  out_ << shown << "\x1b[J" << std::flush;
}

void Console::error(const Error& error) {
  const std::lock_guard lock(mutex_);
  clear_live();
  if (options_.json) {
    const Json fields = Json::object(
        {{"code", static_cast<int>(error.code)}, {"message", error.message}, {"hint", error.hint}});
    err_ << Json::object({{"error", fields}}).text() << '\n' << std::flush;
    return;
  }
  constexpr std::string_view kError = "error:";
  const std::size_t columns = options_.live_columns;
  const std::string text =
      wrapped(fmt::format("{} {}", kError, escape_lines(error.message)), columns);
  err_ << (options_.colour ? "\x1b[31merror:\x1b[0m" : kError) << text.substr(kError.size())
       << '\n';
  if (!error.hint.empty()) err_ << wrapped("hint: " + escape_lines(error.hint), columns) << '\n';
  err_ << std::flush;
}

Cell text_cell(std::string text) {
  Json json(text);
  return {std::move(text), std::move(json)};
}

Cell number_cell(std::uint64_t value) {
  return {fmt::format("{}", value), value};
}

Cell number_cell(double value, int digits) {
  return {fmt::format("{:.{}f}", value, digits), Json::fixed(value, digits)};
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string cost_text(double cost) {
  return fmt::format("{:.6g}", cost);
}

Cell cost_cell(double cost) {
  return {cost_text(cost), Json::number(cost)};
}

Cell bytes_cell(std::uint64_t bytes) {
  return {human_bytes(bytes), bytes};
}

Cell empty_cell() {
  return {"-", Json()};
}

namespace {

// Chooses the columns that fit. Until the rest fits, cuts long cells, drops the least important
// columns, cuts long cells further and drops more columns. Room that is left over widens the cut
// cells.
std::vector<std::size_t> fitting(const Table& table, std::vector<std::size_t>& widths,
                                 std::size_t columns) {
  std::vector<std::size_t> kept(widths.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (columns == 0) return kept;
  const std::vector<std::size_t> whole = widths;
  for (const std::size_t i : kept) {
    if (table.columns[i].shortens) widths[i] = std::min(widths[i], kShortenedColumns);
  }
  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t i : kept) sum += widths[i] + kGap;
    return sum - kGap;
  };
  const auto drop_down_to = [&](int drop_order) {
    while (kept.size() > 1 && total() > columns) {
      const auto least = std::ranges::max_element(
          kept, {}, [&](std::size_t i) { return table.columns[i].drop_order; });
      if (table.columns[*least].drop_order <= drop_order) break;
      kept.erase(least);
    }
  };
  drop_down_to(kLastDropOrder);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const std::size_t excess = total() - std::min(columns, total());
    if (!table.columns[i].shortens || widths[i] <= kShortenedMin) continue;
    widths[i] -= std::min(excess, widths[i] - kShortenedMin);
  }
  drop_down_to(0);
  for (const std::size_t i : kept) {
    const std::size_t room = columns - std::min(columns, total());
    widths[i] += std::min(room, whole[i] - widths[i]);
  }
  return kept;
}

std::string shortened(std::string text, std::size_t columns) {
  if (display_width(text) <= columns) return text;
  constexpr std::string_view kDots = "...";
  std::size_t end = 0;
  for (std::size_t used = 0; end < text.size();) {
    const Character next = character_at(text, end);
    used += next.columns;
    if (used + kDots.size() > columns) break;
    end += next.bytes;
  }
  text.resize(std::min(end, text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text.append(kDots);
}

// A line that names the columns that were dropped; "" if none was.
std::string left_out(const Table& table, const std::vector<std::size_t>& kept,
                     std::size_t columns) {
  std::string names;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (std::ranges::find(kept, i) != kept.end()) continue;
    names += (names.empty() ? "" : ", ") + table.columns[i].title;
  }
  if (names.empty()) return "";
  return wrapped(fmt::format("(too narrow for: {})", escape_control(names)), columns) + "\n";
}

}  // namespace

std::string to_text(const Table& table, std::size_t columns, bool colour) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns) lines[0].push_back(column.title);
  for (const auto& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const Cell& cell : row) line.push_back(cell.text);
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      line[i] = escape_control(line[i]);
      widths[i] = std::max(widths[i], display_width(line[i]));
    }
  }
  const std::vector<std::size_t> kept = fitting(table, widths, columns);
  std::string out;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::string text;
    for (const std::size_t i : kept) {
      if (i >= lines[row].size()) continue;
      lines[row][i] = shortened(std::move(lines[row][i]), widths[i]);
      const std::string padding(widths[i] - display_width(lines[row][i]), ' ');
      const bool right = table.columns[i].right;
      const bool red = colour && row > 0 && table.rows[row - 1][i].fault;
      const std::string shown = red ? "\x1b[31m" + lines[row][i] + "\x1b[0m" : lines[row][i];
      text += (right ? padding : "") + shown + (right ? "" : padding);
      text.append(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += (colour && row == 0 ? fmt::format("\x1b[1m{}\x1b[0m", text) : text) + "\n";
  }
  return out + left_out(table, kept, columns);
}

Json to_json(const Table& table) {
  std::vector<Json> objects;
  for (const auto& row : table.rows) {
    Json::Fields fields;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (table.columns[i].key.empty()) continue;
      fields.emplace_back(table.columns[i].key, row[i].json);
    }
    objects.push_back(Json::object(fields));
  }
  return Json::list(objects);
}

std::string counted(std::size_t count, std::string_view noun) {
  const std::string_view plural = count == 1 ? "" : noun.ends_with("ss") ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, plural);
}

std::string escape_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const auto end = text.find('\n');
    out += escape_control(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string_view next_step(const Error& error) {
  if (error.code == Errc::kResource) {
    if (const auto hint = hint_for_lack(error.message); !hint.empty()) return hint;
  }
  switch (error.code) {
    case Errc::kFailed:
      return "fix the problem above, then run the same command again";
    case Errc::kUsage:
      return "see paddlectl <command> --help for the options, and docs/ for the keys of files";
    case Errc::kVersion:
      return "a node needs Linux on x86-64; paddlectl, paddlectl-agent and paddle must come from "
             "one build, see: paddlectl version";
    case Errc::kUnreachable:
      return "check that the node is up and that `ssh` reaches it, then run the same command "
             "again: "
             "it continues where it stopped";
    case Errc::kAuth:
      return "check that `ssh` logs in to the node with this user and key";
    case Errc::kData:
      return "run the same command again; if the error repeats, that file or program is damaged or "
             "of another version";
    case Errc::kResource:
      return "free the missing resource (disk, memory, port, open files), then run the same "
             "command again";
    case Errc::kResumable:
    case Errc::kInterrupted:
      break;
  }
  return "";
}

}  // namespace paddle::cli
