// Pushing to and fetching from 16 nodes, each a real sshd on loopback with throw-away keys, beside
// rsync -a in parallel to the same nodes. Both connect anew for every figure but one; the agent is
// installed, as `paddlectl up` leaves it. Contents are verified after every push and fetch. Needs
// sshd, ssh and rsync.
//
// usage: push_bench AGENT [nodes] [megabytes of the large file] [rounds] [group]
// group: connect, small, large or fetch
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/sha256.h"
#include "bench/warm_memory.h"
#include "remote/client/agent_client.h"
#include "remote/client/push_source.h"
#include "tests/support/noise.h"
#include "tests/support/sshd.h"

namespace paddle::bench {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kSmallFiles = 1000;
constexpr std::size_t kSmallBytes = 20'000;
constexpr std::size_t kLogBytes = 5'000'000;

void require(bool good, const std::string& what) {
  if (good) return;
  fmt::print(stderr, "push_bench: {}\n", what);
  std::exit(1);
}

template <class T>
T value_of(Result<T> result) {
  require(static_cast<bool>(result), result ? "" : result.error().message);
  return *std::move(result);
}

void require_done(const Status& status) {
  require(static_cast<bool>(status), status ? "" : status.error().message);
}

std::string log_text(std::uint64_t seed) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < kLogBytes; ++i) {
    const std::uint64_t digits = (i + seed) * 2654435761U % 100'000'000U;
    text += fmt::format("2026-01-01 12:00:{:02} pass 3 batch {} cost 0.{:08} examples/s {}\n",
                        i % 60, i, digits, digits % 5000);
  }
  return text;
}

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  require_done(replace_file(path, as_bytes(text), 0644));
}

struct Node {
  std::unique_ptr<test::Sshd> sshd;
  remote::NodeSpec spec;
  std::string rsync_folder;  // where rsync puts the same files
};

class Bench {
 public:
  Bench(std::string agent, std::size_t nodes, std::size_t megabytes)
      : options_{std::move(agent)}, nodes_(nodes), large_bytes_(megabytes << 20U) {
    require(test::Sshd::missing().empty(), test::Sshd::missing());
    require(fs::exists("/usr/bin/rsync"), "rsync is not installed: bench/peers/deps");
    for (std::size_t i = 0; i < nodes; ++i) start(nodes_[i], i);
    for (std::size_t i = 0; i < kSmallFiles; ++i)
      write(fmt::format("{}/small/{:02}/file-{}", work_.path(), i % 20, i),
            test::noise(kSmallBytes, i));
    large_ = test::noise(large_bytes_, 1'000'000);
    write(work_.path() + "/large/file", large_);
    each([](std::size_t, remote::AgentClient&) {});  // installs the agents, as `paddlectl up` does
    std::this_thread::sleep_for(
        std::chrono::seconds(3));  // until the hash cache accepts the files as settled
  }

  // `only`: one of the groups, or "" for all.
  void run(std::size_t rounds, const std::string& only) {
    const auto wanted = [&](const char* group) { return only.empty() || only == group; };
    if (wanted("connect")) {
      connect_only(rounds);
      kept_connections(rounds);
    }
    if (wanted("small")) {
      compare(fmt::format("push {} files, {} MB", kSmallFiles, kSmallFiles * kSmallBytes / 1000000),
              rounds, "small", true);
    }
    if (wanted("large")) {
      compare(fmt::format("push one file of {} MiB", large_bytes_ >> 20U), rounds, "large", true);
      compare("push again, unchanged", rounds, "large", false);
      changed(rounds);
    }
    if (wanted("fetch")) fetch(rounds);
  }

 private:
  void start(Node& node, std::size_t i) {
    node.sshd = value_of(test::Sshd::start(fmt::format("127.0.1.{}", i + 1)));
    node.spec.name = fmt::format("node-{}", i);
    node.spec.host = node.sshd->address();
    node.spec.ssh_port = node.sshd->port();
    node.spec.identity = node.sshd->identity();
    node.spec.address = node.sshd->address();
    node.spec.known_hosts = node.sshd->known_hosts();
    node.spec.ssh_directory = node.sshd->folder();
    node.spec.root = node.sshd->folder() + "/root/bench";
    node.rsync_folder = node.sshd->folder() + "/rsync";
  }

  double each(const std::function<void(std::size_t, remote::AgentClient&)>& work) {
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        threads.emplace_back([&, i] {
          const auto client = value_of(remote::connect(nodes_[i].spec, options_));
          work(i, *client);
        });
      }
    }
    return Seconds(std::chrono::steady_clock::now() - begin).count();
  }

  // Pushes the files below `folder` of the work folder to jobs/<folder> of every node.
  double push(const std::string& folder, std::uint64_t* wire = nullptr) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<remote::PushItem> items;
    for (const auto& entry : fs::recursive_directory_iterator(work_.path() + "/" + folder)) {
      if (!entry.is_regular_file()) continue;
      items.push_back({entry.path().string(),
                       "jobs/" + entry.path().lexically_relative(work_.path()).string()});
    }
    remote::PushSource source(work_.path() + "/cache/hashes", nodes_.size());
    std::atomic<std::uint64_t> moved = 0;
    each([&](std::size_t, remote::AgentClient& client) {
      moved += value_of(client.push(items, source, nullptr)).bytes_on_wire;
    });
    require_done(source.save());
    if (wire != nullptr) *wire = moved / nodes_.size();
    return Seconds(std::chrono::steady_clock::now() - begin).count();
  }

  // Runs `true` on all nodes at once by ssh, with additional options.
  double ssh(const std::vector<std::string>& options) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::jthread> threads;
    for (const Node& node : nodes_) {
      threads.emplace_back([&] {
        std::vector<std::string> command = {"/usr/bin/ssh",
                                            "-F",
                                            "none",
                                            "-i",
                                            node.spec.identity,
                                            "-p",
                                            std::to_string(node.spec.ssh_port),
                                            "-o",
                                            "UserKnownHostsFile=" + node.spec.known_hosts,
                                            "-o",
                                            "IdentitiesOnly=yes",
                                            "-o",
                                            "BatchMode=yes",
                                            "-o",
                                            "ControlPath=" + node.spec.ssh_directory + "/control"};
        command.insert(command.end(), options.begin(), options.end());
        command.insert(command.end(), {node.spec.host, "true"});
        const auto code = value_of(test::run_program(command));
        require(code == 0, fmt::format("ssh ended with {}", code));
      });
    }
    threads.clear();
    return Seconds(std::chrono::steady_clock::now() - begin).count();
  }

  // The cost of connecting, which is part of every figure below.
  void connect_only(std::size_t rounds) {
    std::vector<double> ours, theirs;
    for (std::size_t round = 0; round < rounds; ++round) {
      ours.push_back(each([](std::size_t, remote::AgentClient&) {}));
      theirs.push_back(ssh({}));
    }
    report("connect only (beside ssh true)", ours, theirs);
  }

  // `true` over open connections, beside ssh through its ControlMaster.
  void kept_connections(std::size_t rounds) {
    std::vector<std::unique_ptr<remote::AgentClient>> clients;
    for (const Node& node : nodes_)
      clients.push_back(value_of(remote::connect(node.spec, options_)));
    ssh({"-o", "ControlMaster=yes", "-o", "ControlPersist=60"});
    std::vector<double> ours, theirs;
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      {
        std::vector<std::jthread> threads;
        for (const auto& client : clients) {
          threads.emplace_back([&client] {
            const auto end = value_of(client->run(
                {{"true"}, std::chrono::seconds(10)}, [](std::string_view, bool) {},
                [] { return false; }));
            require(end.exit_code == 0 && end.signal == 0, "true failed");
          });
        }
      }
      ours.push_back(Seconds(std::chrono::steady_clock::now() - begin).count());
      theirs.push_back(ssh({}));
    }
    ssh({"-O", "exit"});
    report("true, connections kept", ours, theirs);
  }

  double rsync(bool to_nodes, const std::string& from, const std::string& to) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      threads.emplace_back([&, i] {
        const Node& node = nodes_[i];
        const std::string shell = fmt::format(
            "ssh -F none -i {} -p {} -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes "
            "-o IdentitiesOnly=yes -o BatchMode=yes",
            node.spec.identity, node.spec.ssh_port, node.spec.known_hosts);
        const std::string there = node.spec.host + ":" + node.rsync_folder + "/";
        const std::string source = to_nodes ? from : there + from;
        const std::string target = to_nodes ? there + to : fmt::format("{}/{}/", to, i);
        const auto code = value_of(
            test::run_program({"/usr/bin/rsync", "-a", "--mkpath", "-e", shell, source, target}));
        require(code == 0, fmt::format("rsync ended with {}", code));
      });
    }
    threads.clear();
    return Seconds(std::chrono::steady_clock::now() - begin).count();
  }

  void verify(const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(work_.path() + "/" + folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string inside = entry.path().lexically_relative(work_.path()).string();
      const auto expected = value_of(sha256_of_file(entry.path().string()));
      for (const Node& node : nodes_) {
        for (const std::string& path :
             {node.spec.root + "/jobs/" + inside, node.rsync_folder + "/" + inside})
          require(value_of(sha256_of_file(path)) == expected, path + " differs");
      }
    }
  }

  void forget(const std::string& folder) {
    each([&](std::size_t, remote::AgentClient& client) {
      require_done(client.remove("jobs/" + folder));
    });
    for (const Node& node : nodes_) fs::remove_all(node.rsync_folder + "/" + folder);
  }

  void report(const std::string& what, std::vector<double> ours, std::vector<double> theirs,
              const std::string& more = "") {
    std::ranges::sort(ours);
    std::ranges::sort(theirs);
    const double a = ours[ours.size() / 2];
    const double b = theirs[theirs.size() / 2];
    fmt::print("{:32} paddlectl {:6.3f} s   peer {:6.3f} s   {:4.1f}x{}\n", what, a, b, b / a,
               more);
    std::fflush(stdout);
  }

  // The nodes' folders may be in memory: the second run would reuse pages that the first one freed.
  void warm() {
    require(WarmMemory((nodes_.size() * large_bytes_ >> 30U) + 1).ready(), "too little memory");
  }

  void compare(const std::string& what, std::size_t rounds, const std::string& folder, bool first) {
    std::vector<double> ours, theirs;
    for (std::size_t i = 0; i < rounds; ++i) {
      if (first) forget(folder);
      warm();
      ours.push_back(push(folder));
      warm();
      theirs.push_back(rsync(true, work_.path() + "/" + folder + "/", folder + "/"));
      if (i == 0) verify(folder);
    }
    report(what, ours, theirs);
  }

  void changed(std::size_t rounds) {
    std::vector<double> ours, theirs;
    std::uint64_t wire = 0;
    for (std::size_t i = 0; i < rounds; ++i) {
      large_.replace(large_.size() / 2 + i * 4096, 1U << 20U, test::noise(1U << 20U, 7 + i));
      write(work_.path() + "/large/file", large_);
      warm();
      ours.push_back(push("large", &wire));
      warm();
      theirs.push_back(rsync(true, work_.path() + "/large/", "large/"));
    }
    verify("large");
    report("push again, 1 MiB changed", ours, theirs,
           fmt::format("   {:.2f} MB to each node", static_cast<double>(wire) / 1e6));
  }

  void fetch(std::size_t rounds) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      write(nodes_[i].spec.root + "/jobs/logs/train.log", log_text(i));
      write(nodes_[i].rsync_folder + "/logs/train.log", log_text(i));
    }
    std::vector<double> ours, theirs;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const char* const side : {"ours", "theirs"}) {
        fs::remove_all(work_.path() + "/" + side);
        for (std::size_t i = 0; i < nodes_.size(); ++i)
          fs::create_directories(fmt::format("{}/{}/{}", work_.path(), side, i));
      }
      ours.push_back(each([&](std::size_t i, remote::AgentClient& client) {
        for (const remote::FileEntry& entry : value_of(client.list("jobs/logs")))
          require_done(client.fetch({{"jobs/logs/" + entry.path,
                                      fmt::format("{}/ours/{}/{}", work_.path(), i, entry.path),
                                      entry.size, entry.sha256}}));
      }));
      theirs.push_back(rsync(false, "logs/", work_.path() + "/theirs"));
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const char* const side : {"ours", "theirs"}) {
        const std::string path = fmt::format("{}/{}/{}/train.log", work_.path(), side, i);
        require(value_of(read_file(path)) == log_text(i), path + " differs");
      }
    }
    report(fmt::format("fetch {} logs of 5 MB", nodes_.size()), ours, theirs);
  }

  remote::ConnectOptions options_;
  test::TemporaryFolder work_;
  std::vector<Node> nodes_;
  std::size_t large_bytes_;
  std::string large_;
};

}  // namespace
}  // namespace paddle::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: push_bench AGENT [nodes] [megabytes] [rounds] [group]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  std::signal(SIGPIPE, SIG_IGN);
  paddle::bench::Bench bench(argv[1], static_cast<std::size_t>(std::max(number(2, 16), 1)),
                             static_cast<std::size_t>(std::max(number(3, 200), 8)));
  bench.run(static_cast<std::size_t>(std::max(number(4, 3), 1)), argc > 5 ? argv[5] : "");
}
