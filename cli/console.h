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

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

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

  void result(std::string_view line);  // stdout, escaped
  void raw(std::string_view text);     // stdout as it is: JSON, help
  void note(std::string_view line);    // stderr, escaped, a line of its own
  // The live line; off a terminal a line every few seconds, so that a log file stays readable.
  void progress(TimePoint now, std::string_view line);
  void end_progress();
  void table(const Table& table);  // stdout; an array of objects with --json
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

// "1.5 GB", "12 kB": for tables.
std::string human_bytes(std::uint64_t bytes);
// Escapes each line, keeps the line breaks.
std::string escape_lines(std::string_view text);

}  // namespace paddle::cli
