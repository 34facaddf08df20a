// What the user sees: results on stdout, progress and errors on stderr. Text that came from nodes
// is escaped here.
#pragma once

#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/result.h"

namespace paddle::cli {

// Columns of terminal cells a UTF-8 text takes (wide East Asian characters and emoji take two).
std::size_t display_width(std::string_view text);

// One place of a table: as people read it, and as a JSON value.
struct Cell {
  std::string text;
  std::string json;
};
Cell text_cell(std::string text);
Cell number_cell(std::uint64_t value);
Cell number_cell(double value, int digits);  // after the point
Cell empty_cell();

struct Column {
  std::string title;
  std::string key;  // in JSON
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};
std::string to_json(const Table& table);  // an array of objects

struct ConsoleOptions {
  bool live = false;    // stderr is a terminal: one progress line is rewritten in place
  bool colour = false;  // stdout and stderr are terminals and NO_COLOR is unset
  bool json = false;
};

class Console {
 public:
  Console(std::ostream& out, std::ostream& err, ConsoleOptions options)
      : out_(out), err_(err), options_(options) {}

  bool json() const { return options_.json; }
  void set_json(bool json) { options_.json = json; }

  // Nobody reads stdout any more, as after `| head`.
  bool closed() const { return !out_; }

  void result(std::string_view line);  // stdout, escaped
  void raw(std::string_view text);     // stdout as it is: JSON, help
  void note(std::string_view line);    // stderr, escaped, a line of its own
  // The live line; off a terminal a line every few seconds, so that a log file stays readable.
  void progress(TimePoint now, std::string_view line);
  void end_progress();
  void table(const Table& table);  // stdout; to_json with --json
  void error(const Error& error);  // stderr: "error: ..." and "hint: ..."; several lines allowed in
                                   // the message

 private:
  void clear_live();

  std::ostream& out_;
  std::ostream& err_;
  ConsoleOptions options_;
  std::mutex mutex_;
  bool live_shown_ = false;
  TimePoint last_plain_{};
};

// "1.5 GB", "12 kB".
std::string human_bytes(std::uint64_t bytes);
// "1 node", "2 nodes".
std::string counted(std::size_t count, std::string_view noun);
// Escapes each line, keeps the line breaks.
std::string escape_lines(std::string_view text);

}  // namespace paddle::cli
