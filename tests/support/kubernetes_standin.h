// A stand-in for a Kubernetes cluster for one test: real kubectl talks to it, and its pods really
// run. tests/support/kubernetes/standin says what it can do, and which faults it takes.
//
// A test that uses it defines KUBERNETES_STANDIN, the path of that program.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace paddle::test {

class KubernetesStandin {
 public:
  // Starts one and returns once it answers; `options`: those of the program, such as
  // "--no-websocket".
  explicit KubernetesStandin(const std::vector<std::string>& options = {})
      : folder_(), process_(start(options)) {
    if (!process_.prints("kubeconfig")) {
      ADD_FAILURE() << "the stand-in for Kubernetes does not start: " << process_.output();
    }
  }
  // Ends its pods, namespaces and mounts.
  ~KubernetesStandin() {
    process_.signal(SIGTERM);
    if (!process_.wait(std::chrono::seconds(60))) {
      ADD_FAILURE() << "the stand-in for Kubernetes does not end";
      process_.signal(SIGKILL);
      process_.wait();
      Process({KUBERNETES_STANDIN, "--dir", state(), "--clean"}, folder_ / "cleaned",
              {path_variable()})
          .wait();
    }
    if (testing::Test::HasFailure()) std::fputs(log().c_str(), stderr);
  }

  // Why this machine cannot run one; empty: it can.
  static std::string obstacle() {
    for (const char* const program : {"kubectl", "curl"}) {
      if (found(program).empty()) return fmt::format("no {} here: scripts/deps optional", program);
    }
    TemporaryFolder folder;
    Process asked({KUBERNETES_STANDIN, "--obstacle"}, folder / "obstacle", {path_variable()});
    return asked.wait() == 0 ? asked.output() : "the stand-in for Kubernetes cannot be asked";
  }
  // All clients of this machine: kubectl, and those that it chooses from (kubectl.1.27 ...).
  static std::vector<std::string> clients() {
    const std::filesystem::path kubectl = found("kubectl");
    std::vector<std::string> all{kubectl};
    const auto real = std::filesystem::canonical(kubectl);
    for (const auto& entry : std::filesystem::directory_iterator(real.parent_path())) {
      if (entry.path().filename().string().starts_with("kubectl.")) all.push_back(entry.path());
    }
    return all;
  }

  // "PATH=...", with which this test's programs are found.
  static std::string path_variable() { return "PATH=" + path(); }

  std::string kubeconfig() const { return folder_ / "state/kubeconfig"; }
  // Its own folder: NFS exports are made below nfs/SERVER/PATH before a pod mounts them.
  std::string state() const { return folder_ / "state"; }
  std::string log() const { return TemporaryFolder::read(folder_ / "state/log"); }
  const TemporaryFolder& folder() const { return folder_; }
  // PATH, HOME and KUBECONFIG for a program that is to reach this cluster.
  std::vector<std::string> environment() const {
    return {path_variable(), "HOME=" + folder_.path(), "KUBECONFIG=" + kubeconfig()};
  }
  // The exit code and the output of a program that runs with this environment.
  std::pair<int, std::string> run(std::vector<std::string> command) const {
    const std::string output = folder_ / "printed";
    std::filesystem::remove(output);
    Process process(std::move(command), output, environment());
    const int code = process.wait().value_or(-1);
    return {code, process.output()};
  }
  std::pair<int, std::string> kubectl(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command{client_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(std::move(command));
  }
  // The other kubectl is used from now on.
  void use_client(const std::string& program) { client_ = program; }
  // kubectl must succeed; returns its output.
  std::string must(const std::vector<std::string>& arguments) const {
    const auto [code, text] = kubectl(arguments);
    EXPECT_EQ(code, 0) << fmt::format("kubectl {}\n{}\n{}", fmt::join(arguments, " "), text, log());
    return text;
  }
  // Writes a manifest and applies it.
  std::string apply(const std::string& manifest) const {
    return must({"apply", "-f", folder_.write("manifest.yaml", manifest)});
  }
  // Asks for a fault: fault("evict", R"({"pod": "train-0"})"); returns the answer.
  std::string fault(const std::string& name, const std::string& json = "{}") const {
    const auto [code, text] = run({found("curl"), "-sS", "--unix-socket", folder_ / "state/control",
                                   "http://standin/standin/" + name, "-d", json});
    EXPECT_TRUE(code == 0 && text.find("Failure") == std::string::npos) << name << ": " << text;
    return text;
  }
  // Calls kubectl until its output has the text, or a deadline; returns whether it came.
  bool prints(const std::vector<std::string>& arguments, const std::string& text,
              std::chrono::seconds deadline = std::chrono::seconds(30)) const {
    const auto end = std::chrono::steady_clock::now() + deadline;
    std::string last;
    while (std::chrono::steady_clock::now() < end) {
      last = kubectl(arguments).second;
      if (last.find(text) != std::string::npos) return true;
      ::usleep(50'000);
    }
    ADD_FAILURE() << fmt::format("kubectl {} never printed '{}' but\n{}", fmt::join(arguments, " "),
                                 text, last);
    return false;
  }

 private:
  static std::string path() {
    const char* const own = std::getenv("PATH");
    return (own == nullptr ? std::string() : own + std::string(":")) + "/usr/sbin:/usr/bin:/bin";
  }
  static std::string found(const std::string& program) {
    std::string rest = path();
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      std::string candidate = rest.substr(0, end) + "/" + program;
      if (::access(candidate.c_str(), X_OK) == 0) return candidate;
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    return "";
  }
  Process start(const std::vector<std::string>& options) const {
    std::vector<std::string> command{KUBERNETES_STANDIN, "--end-with-parent", "--dir", state()};
    command.insert(command.end(), options.begin(), options.end());
    return Process(std::move(command), folder_ / "started", {path_variable()});
  }

  TemporaryFolder folder_;
  Process process_;
  std::string client_ = found("kubectl");
};

}  // namespace paddle::test
