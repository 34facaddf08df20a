// A program of a test: the other end of a sidecar's channel and memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/sidecar/service.h"
#include "tests/support/temporary_folder.h"

namespace paddle::sidecar {

constexpr std::uint64_t kMemoryBytes = 1U << 20U;

// A memfd with these seals.
inline UniqueFd made_memory(std::uint64_t bytes = kMemoryBytes,
                            int seals = F_SEAL_SHRINK | F_SEAL_GROW) {
  UniqueFd fd(::memfd_create("program", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

struct SocketPair {
  SocketPair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    program = UniqueFd(ends[0]);
    sidecar = UniqueFd(ends[1]);
  }
  UniqueFd program, sidecar;
};

inline std::string frame_of(std::uint32_t number, const std::string& text,
                            std::uint32_t magic = kMagic, std::uint16_t version = kVersion) {
  std::string frame(16, '\0');
  const auto size = static_cast<std::uint32_t>(text.size());
  std::memcpy(frame.data(), &magic, 4);
  std::memcpy(frame.data() + 4, &version, 2);
  std::memcpy(frame.data() + 8, &number, 4);
  std::memcpy(frame.data() + 12, &size, 4);
  return frame + text;
}

class Program {
 public:
  explicit Program(TrainingOptions options) : training_(std::move(options)) {
    const UniqueFd file = made_memory();
    void* const mapped =
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    memory_ = static_cast<std::byte*>(mapped);
    auto shared = SharedMemory::open(UniqueFd(::dup(file.get())));
    auto channel = Channel::open(std::move(sockets_.sidecar));
    EXPECT_TRUE(shared && channel);
    service_ = std::thread([this, shared = std::make_shared<SharedMemory>(*std::move(shared)),
                            channel = std::make_shared<Channel>(*std::move(channel))] {
      ended_ = serve(*channel, *shared, training_, &training_);
    });
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    (void)end();
    ::munmap(memory_, kMemoryBytes);
  }
  // Closes the channel, as the end of the program does. Returns the outcome of the service.
  Status end() {
    sockets_.program.reset();
    if (service_.joinable()) service_.join();
    return ended_;
  }

  std::uint32_t send(const std::string& request) {
    write(frame_of(++last_, request));
    return last_;
  }
  void write(const std::string& bytes) const {
    EXPECT_EQ(::send(sockets_.program.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // The next answer, and its number.
  std::pair<std::uint32_t, std::string> receive() {
    for (;;) {
      char header[16];
      if (!read(header, sizeof header)) return {0, "the end"};
      std::uint32_t number = 0, size = 0;
      std::memcpy(&number, header + 8, 4);
      std::memcpy(&size, header + 12, 4);
      std::string text(size, '\0');
      if (!read(text.data(), size)) return {0, "the end"};
      if (number != 0) return {number, text};
      events.push_back(text);
    }
  }
  std::string call(const std::string& request) {
    const std::uint32_t number = send(request);
    const auto [answered, text] = receive();
    EXPECT_EQ(answered, number);
    return text;
  }

  // Returns the first event that says what the request at work waits for.
  std::string waiting() {
    for (;;) {
      events.clear();
      call(R"({"op":"alive"})");  // answered at once
      for (const std::string& event : events) {
        if (event.find(R"("waiting":"")") == std::string::npos) return event;
      }
    }
  }

  template <class T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  // Pulls rows of `table`, and keeps them in the members below. Returns the request's number.
  std::uint32_t pull(const std::string& table, const std::vector<std::uint64_t>& ids,
                     std::size_t width, bool is_test = false) {
    std::ranges::copy(ids, at<std::uint64_t>(0));
    const std::uint64_t out = aligned(ids.size() * 8);
    const std::string answer = call(fmt::format(
        R"({{"op":"pull","tables":[{{"table":"{}","ids":[0,{}],"out":{},"test":{}}}]}})", table,
        ids.size(), out, is_test));
    const std::string key = R"("rows":)";
    const std::size_t found = answer.find(key);
    EXPECT_NE(found, std::string::npos) << answer;
    if (found == std::string::npos) return 0;
    const std::size_t rows = std::stoul(answer.substr(found + key.size()));
    index.assign(at<std::uint32_t>(out), at<std::uint32_t>(out) + ids.size());
    const auto* const first = at<float>(out + aligned(ids.size() * 4));
    values.assign(first, first + rows * width);
    return last_;
  }
  // Pushes gradients of one pull.
  std::string push(const std::string& table, std::uint32_t pulled,
                   const std::vector<float>& gradients, int samples = 1) {
    std::ranges::copy(gradients, at<float>(kMemoryBytes / 2));
    return call(fmt::format(
        R"({{"op":"push","samples":{},"cost":0.5,"tables":[{{"table":"{}","pulls":[{}],"gradients":[{}]}}]}})",
        samples, table, pulled, kMemoryBytes / 2));
  }

  Training& training() { return training_; }

  std::vector<std::uint32_t> index;  // of the last pull
  std::vector<float> values;
  std::vector<std::string> events;

 private:
  bool read(char* into, std::size_t bytes) const {
    return ::recv(sockets_.program.get(), into, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }

  SocketPair sockets_;
  Training training_;
  std::byte* memory_ = nullptr;
  std::uint32_t last_ = 0;
  Status ended_;
  std::thread service_;
};

// Tables "user", of 2 floats, and "item", of 1. A step of 1 makes a gradient visible as it is.
inline const std::string kTables =
    R"([[table]]\nname = \"user\"\nwidth = 2\n[[table]]\nname = \"item\"\nwidth = 1\n)"
    R"([optimizer]\nmethod = \"sgd\"\nlearning_rate = 1\n)";

inline std::string hello(const std::string& tables = kTables) {
  return R"({"op":"hello","version":1,"job":")" + tables + "\"}";
}

// A program that trains in this process alone.
inline TrainingOptions alone(const std::string& save_dir = "") {
  TrainingOptions options;
  options.trainer.config.clear();
  options.trainer.local = true;
  options.trainer.save_dir = save_dir;
  return options;
}

inline bool says(const std::string& answer, const std::string& part) {
  return answer.find(part) != std::string::npos;
}

}  // namespace paddle::sidecar
