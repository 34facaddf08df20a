// Measures the CPU time of a request and of a connection at one port with many trainers over TCP,
// saving and loading one port's snapshot, and one pserver's heartbeats. docs/scale.md extrapolates
// from these figures.
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/rng.h"
#include "engine/client/shard_client.h"
#include "engine/math/allocator.h"
#include "engine/net/heartbeat_thread.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"

namespace paddle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kRowWidth = 8;
constexpr std::uint64_t kRows = 2'000'000;
constexpr std::size_t kLoadedAtOnce = 100'000;
constexpr std::size_t kRounds = 30;
constexpr auto kDeadline = std::chrono::seconds(120);

double seconds_of(clockid_t clock) {
  timespec used{};
  ::clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double resident_bytes() {
  double pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

template <class Outcome>
void must(const Outcome& good, const char* what) {
  if (static_cast<bool>(good)) return;
  std::fprintf(stderr, "WRONG: %s\n", what);
  std::exit(1);
}

JobKeys keys() {
  const std::vector<std::byte> key(kSecretBytes, std::byte{7});
  return JobKeys::of_job(*Secret::from_bytes(key));
}

wire::ParameterSet table_of(std::uint32_t trainers) {
  wire::ParameterSet set;
  set.set_seed(1);
  set.set_num_trainers(trainers);
  set.set_min_block_size(8192);
  auto& spec = *set.add_parameters();
  spec.set_name("table");
  spec.set_sparse(true);
  spec.add_dims(0);
  spec.add_dims(kRowWidth);
  spec.set_learning_rate(1);
  set.mutable_optimizer()->set_method("adagrad");
  set.mutable_optimizer()->set_learning_rate(0.5F);
  set.set_dense_shards(0);
  set.set_sparse_shards(1);
  return set;
}

// A pserver's sparse port with its thread.
class Port {
 public:
  Port(std::uint32_t trainers, net::Transport transport)
      : transport_(transport),
        preparer_(make_memory_preparer()),
        shard_(pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                     .is_sparse = true,
                                     .num_gradient_servers = trainers,
                                     .server_generation = 1,
                                     .preparer = preparer_.get()}) {
    auto server = net::TcpServer::listen({.endpoint = {"127.0.0.1", 0},
                                          .keys = keys(),
                                          .self = {Role::kPserver, 0},
                                          .server_generation = 1,
                                          .transport = transport},
                                         shard_);
    must(server, "listen");
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->run(); });
    must(::pthread_getcpuclockid(thread_.native_handle(), &clock_) == 0, "clock of a thread");
  }
  ~Port() {
    server_->stop();
    thread_.join();
  }
  std::unique_ptr<net::Link> connect(std::uint32_t trainer) const {
    auto link = net::connect({.endpoint = {"127.0.0.1", server_->port()},
                              .keys = keys(),
                              .self = {Role::kTrainer, trainer},
                              .server = {Role::kPserver, 0},
                              .transport = transport_,
                              .shares_memory = false},
                             Clock::now() + kDeadline);
    must(link, "connect");
    return *std::move(link);
  }
  double cpu_seconds() const { return seconds_of(clock_); }

 private:
  net::Transport transport_;
  std::unique_ptr<MemoryPreparer> preparer_;
  pserver::Shard shard_;
  std::unique_ptr<net::TcpServer> server_;
  std::thread thread_;
  clockid_t clock_ = 0;
};

// All trainers of a port, in one thread. Each has an open request at the same time.
class Trainers {
 public:
  Trainers(Port& port, std::uint32_t count) : port_(port), set_(table_of(count)) {
    const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double memory = resident_bytes();
    for (std::uint32_t id = 0; id < count; ++id) {
      trainers_.push_back({port.connect(id), client::ClientLane({.trainer_id = id})});
    }
    connection_cpu_ = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / count;
    connection_bytes_ = (resident_bytes() - memory) / count;
    const std::string text = set_.SerializeAsString();
    all<wire::Join>(FrameType::kJoin, [&](std::size_t, wire::Join& join) {
      join.set_is_sparse(true);
      Bytes tail;
      append_bytes(tail, std::span<const char>(text));
      return tail;
    });
    all<wire::Ready>(FrameType::kReady, [](std::size_t, wire::Ready&) { return Bytes(); });
  }

  // CPU seconds and resident bytes of one connection, for both ends together.
  double connection_cpu() const { return connection_cpu_; }
  double connection_bytes() const { return connection_bytes_; }

  // Each trainer pushes and then pulls `rows` rows: random ones of the first `known`, or new ones
  // if `known` is 0.
  void exchange(std::uint64_t rows, std::uint64_t known, Rng& rng) {
    std::vector<std::vector<std::uint64_t>> ids(trainers_.size());
    for (auto& each : ids) {
      for (std::uint64_t i = 0; i < rows; ++i) {
        each.push_back(mix64(known == 0 ? loaded_++ : rng.below(known)));
      }
      std::ranges::sort(each);
      each.erase(std::ranges::unique(each).begin(), each.end());
    }
    const auto segment = [&](auto& message, std::size_t trainer) {
      message.add_segments()->set_count(ids[trainer].size());
      Bytes tail;
      append_bytes(tail, std::span<const std::uint64_t>(ids[trainer]));
      return tail;
    };
    const double cpu = port_.cpu_seconds();
    const double own = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    all<wire::PushRows>(FrameType::kPushRows, [&](std::size_t i, wire::PushRows& push) {
      push.mutable_part()->set_parts(1);
      push.mutable_part()->set_samples(1);
      Bytes tail = segment(push, i);
      const std::vector<float> ones(ids[i].size() * kRowWidth, 1.0F);
      append_bytes(tail, std::span<const float>(ones));
      return tail;
    });
    all<wire::PullRows>(FrameType::kPullRows,
                        [&](std::size_t i, wire::PullRows& pull) { return segment(pull, i); });
    cpu_ += port_.cpu_seconds() - cpu;
    own_cpu_ += seconds_of(CLOCK_THREAD_CPUTIME_ID) - own;
    for (const auto& each : ids) rows_ += each.size();
  }

  void measure(std::uint64_t rows) {
    Rng rng(3);
    exchange(rows, kRows, rng);
    cpu_ = own_cpu_ = 0;
    rows_ = 0;
    for (std::size_t i = 0; i < kRounds; ++i) exchange(rows, kRows, rng);
    const auto frames = static_cast<double>(2 * kRounds * trainers_.size());
    std::printf(
        "  %4lu rows a request: CPU a request %5.1f us of the port, %5.1f us of the trainer; "
        "a core of the port: %6.0f requests/s, %5.2f million rows/s pulled and pushed\n",
        rows, 1e6 * cpu_ / frames, 1e6 * own_cpu_ / frames, frames / cpu_,
        static_cast<double>(rows_) / cpu_ / 1e6);
  }

  void load() {
    Rng rng(1);
    const std::uint64_t each = kLoadedAtOnce / trainers_.size();
    while (loaded_ < kRows) exchange(each, 0, rng);
  }

 private:
  struct Trainer {
    std::unique_ptr<net::Link> link;
    client::ClientLane lane;
  };

  // Every row has received gradients of 1, so its values are below 0.
  static void check(const Frame& values) {
    float first = 0;
    must(values.tail.size() % (kRowWidth * sizeof first) == 0, "size of rows");
    if (!values.tail.empty()) std::memcpy(&first, values.tail.data(), sizeof first);
    must(first < 0, "a row");
  }

  template <class Message, class Fill>
  void all(FrameType type, const Fill& fill) {
    for (std::size_t i = 0; i < trainers_.size(); ++i) {
      Message message;
      Bytes tail = fill(i, message);
      Frame frame =
          trainers_[i].lane.request(type, std::move(message), std::move(tail), Clock::now());
      must(trainers_[i].link->send(std::move(frame), Clock::now() + kDeadline), "send");
    }
    for (Trainer& trainer : trainers_) {
      while (trainer.lane.is_open()) {
        auto frame = trainer.link->receive(Clock::now() + kDeadline);
        must(frame, "receive");
        auto answer = trainer.lane.on_frame(*std::move(frame), Clock::now());
        must(answer, "answer");
        if (type == FrameType::kPullRows && *answer) check(**answer);
      }
    }
  }

  Port& port_;
  const wire::ParameterSet set_;
  std::vector<Trainer> trainers_;
  std::uint64_t loaded_ = 0;
  std::uint64_t rows_ = 0;
  double cpu_ = 0;
  double own_cpu_ = 0;
  double connection_cpu_ = 0;
  double connection_bytes_ = 0;
};

void many_trainers(std::uint32_t count, net::Transport transport) {
  Port port(count, transport);
  Trainers trainers(port, count);
  std::printf(
      "%u trainers at one sparse port, %s: a connection takes %.2f ms CPU and %.0f KiB of both "
      "ends\n",
      count, transport == net::Transport::kAlways ? "sealed" : "clear",
      1e3 * trainers.connection_cpu(), trainers.connection_bytes() / 1024);
  trainers.load();
  for (const std::uint64_t rows : {1U, 64U, 512U}) trainers.measure(rows);
}

std::unique_ptr<client::ShardClient> client_of(const Port& port) {
  std::vector<std::unique_ptr<net::Link>> links;
  links.push_back(port.connect(0));
  auto joined = client::ShardChannels::join({.parameters = table_of(1)}, {}, std::move(links));
  must(joined, "join");
  return std::make_unique<client::ShardClient>(*std::move(joined));
}

// Trainer 0 saves and loads the rows of one port.
void save_and_load(const std::string& folder) {
  const std::string path = folder + "/pass-00000";
  const auto report = [](const char* what, Clock::time_point begin) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const double bytes = static_cast<double>(kRows * (16 + 8 * kRowWidth));
    std::printf("snapshot %s: %.2f million rows/s, %.0f MB/s of %lu bytes a row\n", what,
                static_cast<double>(kRows) / seconds / 1e6, bytes / seconds / 1e6,
                16 + 8 * kRowWidth);
  };
  {
    Port port(1, net::Transport::kClear);
    const auto client = client_of(port);
    must(client->ready(), "ready");
    std::vector<client::SparseRows> rows(1);
    for (std::uint64_t done = 0; done < kRows; done += kLoadedAtOnce) {
      rows[0].ids.resize(kLoadedAtOnce);
      for (std::size_t i = 0; i < kLoadedAtOnce; ++i) rows[0].ids[i] = mix64(done + i);
      std::ranges::sort(rows[0].ids);
      rows[0].gradients.assign(kLoadedAtOnce * kRowWidth, 1.0F);
      must(client->push(1, 0, {}, rows), "push");
    }
    must(client->finish_pass({}), "end of the pass");
    const auto begin = Clock::now();
    must(client->snapshots().save(path), "save");
    report("saved", begin);
  }
  Port port(1, net::Transport::kClear);
  const auto client = client_of(port);
  const auto begin = Clock::now();
  must(client->snapshots().load(path), "load");
  report("loaded", begin);
  must(client->ready(), "ready");
  std::vector<client::SparseRows> rows(1);
  rows[0].ids = {mix64(1)};
  must(client->pull_rows(rows) && rows[0].values[0] < 0, "a row that was loaded");
}

std::set<std::string> threads() {
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(entry.path().filename());
  }
  return ids;
}

double cpu_of_thread(const std::string& id) {
  double nanoseconds = 0;
  std::ifstream("/proc/self/task/" + id + "/schedstat") >> nanoseconds;
  return nanoseconds / 1e9;
}

// Heartbeats of many trainers to one pserver.
void heartbeats(std::uint32_t trainers, std::uint16_t udp_port) {
  constexpr int kSeconds = 10;
  const net::Endpoint endpoint{"127.0.0.1", udp_port};
  const std::set<std::string> before = threads();
  std::atomic<int> dead = 0;
  const auto on_dead = [&](const heartbeat::Silence&) { ++dead; };
  auto server = heartbeat::HeartbeatThread::start({.keys = keys(),
                                                   .self = {Role::kPserver, 0},
                                                   .incarnation = 1,
                                                   .trainers = trainers,
                                                   .bind = endpoint,
                                                   .on_dead = on_dead});
  must(server, "heartbeats of the pserver");
  std::string thread;
  for (const std::string& id : threads()) {
    if (!before.contains(id)) thread = id;
  }
  std::vector<std::unique_ptr<heartbeat::HeartbeatThread>> clients;
  for (std::uint32_t id = 0; id < trainers; ++id) {
    auto client = heartbeat::HeartbeatThread::start({.keys = keys(),
                                                     .self = {Role::kTrainer, id},
                                                     .incarnation = 1,
                                                     .servers = {endpoint},
                                                     .on_dead = on_dead});
    must(client, "heartbeats of a trainer");
    clients.push_back(*std::move(client));
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double cpu = cpu_of_thread(thread);
  std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  const double used = (cpu_of_thread(thread) - cpu) / kSeconds;
  const double expected = trainers * 1e9 / static_cast<double>(heartbeat::kPeriod.count());
  std::printf(
      "heartbeats of %u trainers at one pserver: %.2f %% of a core, %.1f us a heartbeat and its "
      "answer, %d taken for dead\n",
      trainers, 100 * used, 1e6 * used / expected, dead.load());
}

}  // namespace
}  // namespace paddle

// port_bench [trainers [folder [udp-port]]]: the folder takes a snapshot of 160 MB.
int main(int argc, char** argv) {
  using namespace paddle;
  keep_freed_memory();
  const auto trainers = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 800);
  const std::string folder = argc > 2 ? argv[2] : "/dev/shm";
  const auto udp_port = static_cast<std::uint16_t>(argc > 3 ? std::atoi(argv[3]) : 23999);
  must(trainers > 0, "number of trainers");
  for (const auto transport : {net::Transport::kClear, net::Transport::kAlways}) {
    many_trainers(trainers, transport);
  }
  const std::string own = folder + "/port_bench." + std::to_string(::getpid());
  std::filesystem::create_directories(own);
  save_and_load(own);
  std::filesystem::remove_all(own);
  heartbeats(trainers, udp_port);
  return 0;
}
