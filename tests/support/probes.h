// Things that a user tries with the files, processes and ports of another: all must fail.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/support/free_ports.h"

namespace paddle::test {

// Processes of a user, as root sees them.
inline std::vector<pid_t> processes_of(unsigned user) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    struct stat info {};
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && ::stat(entry.path().c_str(), &info) == 0 && info.st_uid == user)
      found.push_back(pid);
  }
  return found;
}

// Something that one user tries with another's; it succeeds when it should not.
struct Probe {
  std::string name;
  std::function<bool()> succeeds;
};

inline bool opens(const std::string& path, int flags) {
  return static_cast<bool>(UniqueFd(::open(path.c_str(), flags | O_CLOEXEC)));
}

inline std::vector<Probe> probes_of_file(const std::string& path) {
  return {{"read " + path, [path] { return opens(path, O_RDONLY); }},
          {"write " + path, [path] { return opens(path, O_WRONLY); }},
          {"remove " + path, [path] { return std::remove(path.c_str()) == 0; }}};
}

inline std::vector<Probe> probes_of_process(pid_t pid) {
  std::vector<Probe> probes;
  const std::string folder = fmt::format("/proc/{}/", pid);
  // Its memory, environment (our mark), open files and mapped files.
  for (const char* file : {"environ", "mem", "maps", "auxv", "stack"}) {
    const std::string path = folder + file;
    probes.push_back({"read " + path, [path] {
                        char byte = 0;
                        const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
                        return fd && ::read(fd.get(), &byte, 1) > 0;
                      }});
  }
  for (const char* link : {"cwd", "root", "exe", "fd/0"}) {
    const std::string path = folder + link;
    probes.push_back({"follow " + path, [path] {
                        char target[4096];
                        return ::readlink(path.c_str(), target, sizeof target) >= 0;
                      }});
  }
  for (const int signal : {0, SIGSTOP, SIGTERM, SIGUSR1, SIGKILL}) {
    probes.push_back({fmt::format("signal {} to {}", signal, pid),
                      [pid, signal] { return ::kill(pid, signal) == 0; }});
  }
  probes.push_back({fmt::format("trace {}", pid),
                    [pid] { return ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0; }});
  probes.push_back({fmt::format("read memory of {}", pid), [pid] {
                      char byte = 0;
                      const iovec here{&byte, 1};
                      const iovec there{reinterpret_cast<void*>(0x400000), 1};
                      return ::process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM;
                    }});
  probes.push_back({fmt::format("slow down {}", pid), [pid] {
                      return ::setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 19) == 0;
                    }});
  return probes;
}

// The answer to some bytes from a stranger who connects to the port.
inline std::string answer_of(std::uint16_t port, const std::string& bytes) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "";
  ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}

// The names of those that succeed for the user, each in a line.
inline std::string succeeded(unsigned user, const std::vector<Probe>& probes) {
  int pipe[2];
  EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  UniqueFd in(pipe[0]);
  UniqueFd out(pipe[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_user = ::setgroups(0, nullptr) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0;
    std::string names = is_user ? "" : "becoming another user\n";
    for (const Probe& probe : probes) {
      if (is_user && probe.succeeds()) names += probe.name + "\n";
    }
    const bool is_told =
        ::write(out.get(), names.data(), names.size()) == static_cast<ssize_t>(names.size());
    ::_exit(is_told ? 0 : 1);
  }
  out.reset();
  std::string names;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(in.get(), buffer, sizeof buffer)) > 0;)
    names.append(buffer, static_cast<std::size_t>(got));
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the probes were broken off";
  return names;
}

}  // namespace paddle::test
