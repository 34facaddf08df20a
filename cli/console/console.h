// The terminal: results on stdout, progress and errors on stderr, tables and wrapped text. Text
// from nodes is escaped here.
#pragma once

#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/console/json.h"

namespace paddle::cli {

// Width of UTF-8 text in terminal cells; wide East Asian characters and emoji take two.
std::size_t display_width(std::string_view text);

constexpr std::size_t kHelpColumns = 80;

// The line in rows of at most `columns` cells, all but the first indented by `indent`; 0: as it is.
// A longer word stays whole, and so does a command ("paddlectl ...") that fits into a row: it is
// there to be copied.
std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t indent);

// Every line of the text, each going on under its own beginning or, where it has columns with two
// spaces or more between them, under the second.
std::string wrapped(std::string_view text, std::size_t columns);

// Lines as a terminal shows them in the end: a carriage return begins a line anew, so that of a
// progress bar its newest state is left, and nothing of the one of "\r\n".
std::string overwritten(std::string_view text);

// A cell of a table: its text, and its value in JSON.
struct Cell {
  std::string text;
  Json json;
  bool fault = false;  // red where there is colour
};
Cell text_cell(std::string text);
Cell number_cell(std::uint64_t value);
Cell number_cell(double value, int digits);  // after the point
std::string cost_text(double cost);          // six significant digits
std::string grouped(std::uint64_t number);   // "1,234,567"
Cell cost_cell(double cost);                 // likewise
Cell bytes_cell(std::uint64_t bytes);        // as human_bytes has it
Cell empty_cell();

struct Column {
  std::string title;
  std::string key;        // in JSON; "": not there
  int importance = 0;     // a narrow terminal drops the highest first; 0: never
  bool right = false;     // aligned, as numbers are
  bool shortens = false;  // a narrow terminal cuts its long cells before it drops a column
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};
Json to_json(const Table& table);  // an array of objects
// Aligned lines, escaped. columns: of the terminal, 0 for no limit. colour: a bold head.
std::string to_text(const Table& table, std::size_t columns, bool colour);

struct ConsoleOptions {
  bool live = false;    // stderr is a terminal: one progress line is rewritten in place
  bool colour = false;  // terminals, NO_COLOR unset, TERM not dumb
  bool json = false;
  std::size_t columns = 0;  // of the terminal on stdout; 0: none
  std::size_t rows = 0;
  std::size_t live_columns = 0;  // of the terminal on stderr; 0: not known
  bool utf8 = false;             // terminals show it
};

class Console {
 public:
  Console(std::ostream& out, std::ostream& err, ConsoleOptions options)
      : out_(out), err_(err), options_(options) {}

  bool json() const { return options_.json; }
  const ConsoleOptions& options() const { return options_; }
  void set_json(bool json) { options_.json = json; }

  // True once the reader of stdout is gone, as after `| head`.
  bool closed() const { return !out_; }

  void result(std::string_view line);  // stdout, escaped
  void raw(std::string_view text);     // stdout as it is: JSON, help
  void json_line(const Json& value) { raw(value.text() + "\n"); }
  // The value with --json, or else the text.
  void result(const Json& value, std::string_view line) {
    return json() ? json_line(value) : result(line);
  }
  void raw(const Json& value, std::string_view text) {
    return json() ? json_line(value) : raw(text);
  }
  void note(std::string_view line);  // stderr, escaped, a line of its own
  // Rewrites the live line; when stderr is no terminal, prints a line every few seconds.
  void progress(TimePoint now, std::string_view line);
  void end_progress();
  void table(const Table& table);  // stdout; to_json with --json
  // stdout: "label | text", on a terminal with the label in the colour of `group`.
  void labelled(std::size_t group, std::string_view label, std::string_view text);
  // True when stdout is a terminal: repaint() then draws over the last text.
  bool repaints() const { return options_.columns > 0; }
  void repaint(std::string_view text);
  // stderr: "error: ..." and "hint: ..." (the message may have several lines), or with --json one
  // line {"error": {"code": the exit code, "message": ..., "hint": ...}}.
  void error(const Error& error);

 private:
  void clear_live();

  std::ostream& out_;
  std::ostream& err_;
  ConsoleOptions options_;
  std::mutex mutex_;
  bool live_shown_ = false;
  TimePoint last_plain_{};
};

// "1 node", "2 nodes".
std::string counted(std::size_t count, std::string_view noun);
// Escapes each line, keeps the line breaks.
std::string escape_lines(std::string_view text);

// A generic hint for an error that carries none; "" for ends that the user asked for: an
// interruption, a stop that can go on.
std::string_view next_step(const Error& error);

}  // namespace paddle::cli
