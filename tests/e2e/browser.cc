#include "tests/e2e/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <initializer_list>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/console/json.h"

namespace paddle::test {
namespace {

using namespace std::chrono_literals;
using cli::Json;

constexpr auto kPatience = 30s;
constexpr int kFirstFreeFd = 10;  // above those that the browser's pipe must have: 3 and 4

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd first(ends[0]), second(ends[1]);
  return {UniqueFd(::fcntl(first.get(), F_DUPFD_CLOEXEC, kFirstFreeFd)),
          UniqueFd(::fcntl(second.get(), F_DUPFD_CLOEXEC, kFirstFreeFd))};
}

// The value at a path of members, or nullptr.
const JsonValue* find(const JsonValue* value, std::initializer_list<std::string_view> path) {
  for (const std::string_view name : path) {
    if (value == nullptr || !value->is_object()) return nullptr;
    const JsonValue* key = value->items();
    std::size_t left = value->size();
    while (left > 0 && key->text() != name) {
      key = key->next()->next();
      --left;
    }
    value = left == 0 ? nullptr : key->next();
  }
  return value;
}

std::string text_of(const JsonValue* value) {
  if (value == nullptr || value->is_null()) return "";
  return value->is_text() ? std::string(value->text()) : value->shown();
}

std::string object(const Json::Fields& fields) {
  return Json::object(fields).text();
}

}  // namespace

const char* const kMeasured = R"(
function measured(page, view) {
  const edge = page.documentElement.clientWidth;
  const wrong = [], boxes = new Map();
  let texts = 0;
  if (page.documentElement.scrollWidth > edge) wrong.push('the page scrolls sideways');
  for (const element of page.querySelectorAll('body *')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim() !== '')) continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0) continue;
    ++texts;
    const text = element.textContent.slice(0, 60), drawing = element.closest('svg');
    const zoom = drawing ? drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : 1;
    const size = parseFloat(view.getComputedStyle(element).fontSize) * zoom;
    if (size < 11) wrong.push('small (' + size + '): ' + text);
    if (box.right > edge + 0.5 || box.left < 0) wrong.push('beyond the edge: ' + text);
    if (!drawing && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0) wrong.push('cut: ' + text);
    if (!drawing) continue;
    const outer = drawing.getBoundingClientRect();
    if (box.right > outer.right + 0.5 || box.left < outer.left - 0.5) wrong.push('beyond its chart: ' + text);
    for (const [other, at] of boxes.get(drawing) ?? []) {
      if (at.left < box.right && box.left < at.right && at.top + 2 < box.bottom && box.top + 2 < at.bottom) {
        wrong.push('overlaps: ' + text + ' and ' + other);
      }
    }
    boxes.set(drawing, [...boxes.get(drawing) ?? [], [text, box]]);
  }
  return [...wrong, texts + ' texts, ' + boxes.size + ' charts'];
}
)";

std::string browser_program() {
  for (const char* const path : {"/usr/bin/chromium", "/usr/bin/chromium-headless-shell",
                                 "/usr/bin/chromium-browser", "/usr/bin/google-chrome"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

Browser::Browser() {
  const Pipe commands = make_pipe(), answers = make_pipe();
  const std::string profile = "--user-data-dir=" + (folder_ / "profile");
  const std::string home = "HOME=" + folder_.path(), program = browser_program();
  const std::string output = folder_ / "output";
  std::vector<const char*> arguments{program.c_str(),
                                     "--headless",
                                     "--no-sandbox",
                                     "--disable-gpu",
                                     "--disable-dev-shm-usage",
                                     "--no-first-run",
                                     "--disable-background-networking",
                                     "--remote-debugging-pipe",
                                     profile.c_str(),
                                     "about:blank",
                                     nullptr};
  const std::array<const char*, 3> environment{"PATH=/usr/bin:/bin", home.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, commands.read.get(), 3);
  posix_spawn_file_actions_adddup2(&actions, answers.write.get(), 4);
  const int failure =
      ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, const_cast<char**>(arguments.data()),
                    const_cast<char**>(environment.data()));
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0);
  to_ = UniqueFd(::fcntl(commands.write.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  from_ = UniqueFd(::fcntl(answers.read.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  const std::string page =
      call("Target.createTarget", object({{"url", "about:blank"}}), "targetId");
  session_ =
      call("Target.attachToTarget", object({{"targetId", page}, {"flatten", true}}), "sessionId");
  for (const char* const domain : {"Page", "Runtime", "Log", "Network"})
    call(std::string(domain) + ".enable", "{}");
}

Browser::~Browser() {
  if (pid_ <= 0) return;
  session_.clear();
  call("Browser.close", "{}");
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Browser::open(const std::string& url) {
  call("Page.navigate", object({{"url", url}}));
}

void Browser::set_view(int width, int height, bool is_dark) {
  call("Emulation.setDeviceMetricsOverride",
       object({{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}}));
  const Json scheme =
      Json::object({{"name", "prefers-color-scheme"}, {"value", is_dark ? "dark" : "light"}});
  call("Emulation.setEmulatedMedia", object({{"features", Json::list({scheme})}}));
}

std::string Browser::evaluate(const std::string& expression) {
  return call("Runtime.evaluate", object({{"expression", "String(" + expression + ")"},
                                          {"returnByValue", true},
                                          {"awaitPromise", true}}));
}

bool Browser::comes(const std::string& expression) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    if (evaluate(expression) == "true") return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

void Browser::press(const std::string& key) {
  const bool is_character = key.size() == 1;
  const int code = key == "Tab" ? 9 : key == "Enter" ? 13 : key == "Escape" ? 27 : 0;
  Json::Fields fields = {{"type", "keyDown"}, {"key", key}, {"windowsVirtualKeyCode", code}};
  if (is_character) fields.emplace_back("text", key);
  if (key == "Enter") fields.emplace_back("text", "\r");
  call("Input.dispatchKeyEvent", object(fields));
  fields.front().second = "keyUp";
  call("Input.dispatchKeyEvent", object(fields));
}

std::string Browser::call(const std::string& method, const std::string& parameters,
                          const std::string& member) {
  const int id = ++calls_;
  std::string message =
      fmt::format("{{\"id\":{},\"method\":\"{}\",\"params\":{}", id, method, parameters);
  if (!session_.empty()) message += ",\"sessionId\":" + Json(session_).text();
  message += '}';
  message += '\0';
  if (::write(to_.get(), message.data(), message.size()) != static_cast<ssize_t>(message.size())) {
    ADD_FAILURE() << "the browser takes no command";
    return "";
  }
  JsonReader reader({"id", "method", "params", "result", "error"});
  for (std::string answer = receive(); !answer.empty(); answer = receive()) {
    if (!reader.read(answer)) continue;
    note_event(reader);
    if (text_of(reader.find(0)) != std::to_string(id)) continue;
    if (reader.find(4) != nullptr) return "error: " + text_of(find(reader.find(4), {"message"}));
    const JsonValue* const result = reader.find(3);
    if (!member.empty()) return text_of(find(result, {member}));
    if (const auto* thrown = find(result, {"exceptionDetails", "exception", "description"}))
      return "error: " + text_of(thrown);
    return text_of(find(result, {"result", "value"}));
  }
  return "";
}

std::string Browser::receive() {
  std::array<char, 65536> buffer{};
  for (;;) {
    const std::size_t end = received_.find('\0');
    if (end != std::string::npos) {
      std::string message = received_.substr(0, end);
      received_.erase(0, end + 1);
      return message;
    }
    pollfd waiting{from_.get(), POLLIN, 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return "";
    const ssize_t size = ::read(from_.get(), buffer.data(), buffer.size());
    if (size <= 0) return "";
    received_.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

void Browser::note_event(const JsonReader& message) {
  const std::string method = text_of(message.find(1));
  const JsonValue* const parameters = message.find(2);
  if (method == "Network.requestWillBeSent") {
    requests_.push_back(text_of(find(parameters, {"request", "url"})));
  } else if (method == "Runtime.exceptionThrown") {
    complaints_.push_back(
        text_of(find(parameters, {"exceptionDetails", "exception", "description"})));
  } else if (method == "Log.entryAdded") {
    const std::string level = text_of(find(parameters, {"entry", "level"}));
    if (level == "error" || level == "warning")
      complaints_.push_back(text_of(find(parameters, {"entry", "text"})));
  } else if (method == "Runtime.consoleAPICalled") {
    const std::string type = text_of(find(parameters, {"type"}));
    if (type == "error" || type == "warning") complaints_.push_back("console." + type);
  } else if (method == "Page.javascriptDialogOpening") {
    complaints_.push_back("a dialog: " + text_of(find(parameters, {"message"})));
  }
}

}  // namespace paddle::test
