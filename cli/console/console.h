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

// Breaks the line into rows of at most `columns` cells (0: no limit), all but the first indented by
// `indent`. A longer word stays whole. So does a command ("paddlectl ...") that fits into a row, so
// that it can be copied.
std::string wrapped_line(std::string_view line, std::size_t columns, std::size_t indent);

// Wraps every line of the text. Its further rows begin under its first word or, if two or more
// spaces separate the line into columns, under its second column.
std::string wrapped(std::string_view text, std::size_t columns);

// Lines as a terminal shows them in the end. Text after a carriage return replaces the line, so
// only the newest state of a progress bar remains; "\r\n" ends a line as "\n" does.
std::string overwritten(std::string_view text);

// A cell of a table: its text, and its value in JSON.
struct Cell {
  std::string text;
  Json json;
  bool fault = false;  // red, if there are colours
};
Cell text_cell(std::string text);
Cell number_cell(std::uint64_t value);
Cell number_cell(double value, int digits);  // digits: after the decimal point
std::string cost_text(double cost);          // six significant digits
std::string grouped(std::uint64_t number);   // "1,234,567"
Cell cost_cell(double cost);                 // shows cost_text()
Cell bytes_cell(std::uint64_t bytes);        // shows human_bytes()
Cell empty_cell();

struct Column {
  std::string title;
  std::string key;        // name in JSON; "": not in JSON
  int drop_order = 0;     // a narrow terminal drops the highest first; 0: never
  bool right = false;     // right-aligned, as numbers are
  bool shortens = false;  // a narrow terminal cuts its long cells before it drops a column
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};
Json to_json(const Table& table);  // an array of objects
// Aligned lines, escaped. columns: width of the terminal; 0: no limit. colour: the head is bold.
std::string to_text(const Table& table, std::size_t columns, bool colour);

struct ConsoleOptions {
  bool live = false;    // stderr is a terminal: one progress line is rewritten in place
  bool colour = false;  // on a terminal, if NO_COLOR is unset and TERM is not dumb
  bool json = false;
  std::size_t columns = 0;  // width of the terminal on stdout; 0: no terminal
  std::size_t rows = 0;
  std::size_t live_columns = 0;  // width of the terminal on stderr; 0: not known
  bool utf8 = false;             // the terminal shows UTF-8
};

class Console {
 public:
  Console(std::ostream& out, std::ostream& err, ConsoleOptions options)
      : out_(out), err_(err), options_(options) {}

  bool json() const { return options_.json; }
  const ConsoleOptions& options() const { return options_; }
  void set_json(bool json) { options_.json = json; }

  // True if the reader of stdout has closed it, as after `| head`.
  bool closed() const { return !out_; }

  void result(std::string_view line);  // stdout, escaped
  void raw(std::string_view text);     // stdout, unchanged: JSON, help
  void json_line(const Json& value) { raw(value.text() + "\n"); }
  // Prints the value with --json, else the text.
  void result(const Json& value, std::string_view line) {
    return json() ? json_line(value) : result(line);
  }
  void raw(const Json& value, std::string_view text) {
    return json() ? json_line(value) : raw(text);
  }
  void note(std::string_view line);  // stderr, escaped, on its own line
  // Adds notes to this list from now on and prints none; null: prints them.
  void divert_notes(std::vector<std::string>* into);
  // Rewrites the live line; when stderr is no terminal, prints a line every few seconds.
  void progress(TimePoint now, std::string_view line);
  void end_progress();
  void table(const Table& table);  // stdout; to_json with --json
  // stdout: "label | text", on a terminal with the label in the colour of `group`.
  void labelled(std::size_t group, std::string_view label, std::string_view text);
  // True if stdout is a terminal: repaint() then draws over the last text.
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
  std::vector<std::string>* diverted_ = nullptr;
  TimePoint last_plain_{};
};

// "1 node", "2 nodes".
std::string counted(std::size_t count, std::string_view noun);
// Escapes each line, keeps the line breaks.
std::string escape_lines(std::string_view text);

// A generic hint for an error without one; "" if the user asked for the end: an interruption, or a
// stop that can be resumed.
std::string_view next_step(const Error& error);

}  // namespace paddle::cli
