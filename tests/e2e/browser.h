// A headless Chromium that a test drives through its DevTools pipe, and JavaScript that measures a
// page's layout.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json_reader.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

// The browser's program; "" if this machine has none (scripts/deps browser installs one).
std::string browser_program();

// JavaScript: measured(page, view) gives the faults of a document's layout as a list of texts, and
// in its last item how many texts and charts there are. Faults are texts that are smaller than 11
// pixels, cut off or beyond the right edge, and texts of a chart that overlap.
extern const char* const kMeasured;

class Browser {
 public:
  // Starts with an empty page. REQUIRES: browser_program() is not "".
  Browser();
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& url);
  void set_view(int width, int height, bool is_dark = false);
  // The value of an expression, as text; "error: ..." if it throws.
  std::string evaluate(const std::string& expression);
  // Waits until the expression is true. False after half a minute.
  bool comes(const std::string& expression);
  // Presses and releases a key of the keyboard: "Tab", "Enter", "Escape" or a character.
  void press(const std::string& key);

  // Errors and warnings on the console, violations of the page's policy, uncaught exceptions.
  const std::vector<std::string>& complaints() const { return complaints_; }
  // The addresses of all requests.
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  // Sends a command and waits for its answer, of which it returns the text at result.result.value
  // or result.<member>.
  std::string call(const std::string& method, const std::string& parameters,
                   const std::string& member = "");
  // The next message, without its end; "" if none comes.
  std::string receive();
  void note_event(const JsonReader& message);

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  UniqueFd to_, from_;
  std::string received_;
  int calls_ = 0;
  std::string session_;
  std::vector<std::string> complaints_, requests_;
};

}  // namespace paddle::test
