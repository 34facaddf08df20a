// Throughput of one trainer and one port over TCP, sealed or not, and over shared memory: a dense
// push and pull with SGD, sparse pulls and pushes with AdaGrad, beside a raw TCP stream in the same
// run. Results are verified.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/pool.h"
#include "base/rng.h"
#include "engine/client/shard_client.h"
#include "engine/math/allocator.h"
#include "engine/math/region.h"
#include "engine/net/tcp.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"

namespace paddle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMeasureSeconds = 1.5;
constexpr std::size_t kRequestIds = 100'000;
constexpr float kRate = 0.5F;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds of one call.
struct Seconds {
  double median = -1;
  double least = -1;  // the call that other processes disturbed least
};
template <class Step>
Seconds measure(Step step) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || seconds_since(start) < kMeasureSeconds) {
    const auto begin = Clock::now();
    if (!step(times.size())) return {};
    times.push_back(seconds_since(begin));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return {times[times.size() / 2], *std::min_element(times.begin(), times.end())};
}

// Bytes per second of blocking 1 MiB writes and reads through a loopback TCP connection.
double raw_tcp() {
  constexpr std::size_t kMessage = 1U << 20U;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, raw, size) != 0 || ::listen(listener, 1) != 0) return -1;
  ::getsockname(listener, raw, &size);
  std::thread reader([&] {
    const int in = ::accept(listener, nullptr, nullptr);
    std::vector<char> to(kMessage);
    while (::recv(in, to.data(), to.size(), 0) > 0) {
    }
    ::close(in);
  });
  const int out = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(out, raw, size) != 0) std::abort();
  const std::vector<char> from(kMessage, 1);
  double sent = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < kMeasureSeconds) {
    for (std::size_t done = 0; done < kMessage;) {
      const ssize_t count = ::send(out, from.data() + done, kMessage - done, MSG_NOSIGNAL);
      if (count <= 0) std::abort();
      done += static_cast<std::size_t>(count);
    }
    sent += kMessage;
  }
  const double rate = sent / seconds_since(start);
  ::close(out);
  reader.join();
  ::close(listener);
  return rate;
}

wire::ParameterSet parameters(std::uint64_t elements, std::uint64_t width, const char* method) {
  wire::ParameterSet set;
  set.set_seed(1);
  set.set_num_trainers(1);
  set.set_min_block_size(8192);
  auto& spec = *set.add_parameters();
  spec.set_name(elements > 0 ? "matrix" : "table");
  spec.set_sparse(elements == 0);
  spec.add_dims(elements);
  if (elements == 0) spec.add_dims(width);
  spec.set_learning_rate(1);
  set.mutable_optimizer()->set_method(method);
  set.mutable_optimizer()->set_learning_rate(kRate);
  set.set_dense_shards(elements > 0 ? 1 : 0);
  set.set_sparse_shards(elements > 0 ? 0 : 1);
  return set;
}

double cpu_seconds(clockid_t clock) {
  timespec used{};
  ::clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

enum class Way { kTcp, kSealed, kSharedMemory };
constexpr const char* kNames[] = {"TCP          ", "TLS          ", "shared memory"};

net::Transport transport_of(Way way) {
  return way == Way::kSealed ? net::Transport::kAlways : net::Transport::kClear;
}

// The server's address, and the network namespaces (of ip-netns) of the server and the trainer.
struct Place {
  std::string address = "127.0.0.1";
  std::string server_namespace, trainer_namespace;
};

// Moves this thread to a network namespace. Sockets stay in the namespace in which they were made.
void enter(const std::string& name) {
  if (name.empty()) return;
  const UniqueFd fd(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::setns(fd.get(), CLONE_NEWNET) != 0) {
    std::perror(name.c_str());
    std::exit(1);
  }
}

// One port with its thread, and a client that has joined it.
class Pair {
 public:
  explicit Pair(const wire::ParameterSet& set, Way way = Way::kTcp, std::size_t helpers = 0,
                const Place& place = {})
      : helpers_(helpers),
        preparer_(make_memory_preparer()),
        shard_(pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                                     .is_sparse = set.sparse_shards() > 0,
                                     .server_generation = 1,
                                     .parallel = parallel(),
                                     .preparer = preparer_.get()}) {
    const std::vector<std::byte> key(kSecretBytes, std::byte{7});
    const JobKeys keys = JobKeys::of_job(*Secret::from_bytes(key));
    enter(place.server_namespace);
    auto server = net::TcpServer::listen({.endpoint = {place.address, 0},
                                          .keys = keys,
                                          .self = {Role::kPserver, 0},
                                          .server_generation = 1,
                                          .transport = transport_of(way)},
                                         shard_);
    if (!server) std::abort();
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->run(); });
    enter(place.trainer_namespace);
    auto link = net::connect({.endpoint = {place.address, server_->port()},
                              .keys = keys,
                              .self = {Role::kTrainer, 0},
                              .server = {Role::kPserver, 0},
                              .transport = transport_of(way),
                              .shares_memory = way == Way::kSharedMemory},
                             Clock::now() + std::chrono::seconds(5));
    if (!link) std::abort();
    std::vector<std::unique_ptr<net::Link>> one;
    one.push_back(*std::move(link));
    std::vector<std::unique_ptr<net::Link>> none;
    auto joined =
        set.sparse_shards() > 0
            ? client::ShardChannels::join({.parameters = set}, std::move(none), std::move(one))
            : client::ShardChannels::join({.parameters = set}, std::move(one), std::move(none));
    if (!joined || !(*joined)->ready()) std::abort();
    client_ = std::make_unique<client::ShardClient>(*std::move(joined));
  }
  ~Pair() {
    server_->stop();
    thread_.join();
  }
  client::ParameterClient& client() { return *client_; }

 private:
  Parallel parallel() {
    if (helpers_.count() == 0) return {};
    return [this](std::size_t count, const auto& work) { helpers_.parallel_for(count, work); };
  }

  HelperPool helpers_;
  std::unique_ptr<MemoryPreparer> preparer_;
  pserver::Shard shard_;
  std::unique_ptr<net::TcpServer> server_;
  std::thread thread_;
  std::unique_ptr<client::ParameterClient> client_;
};

// Pushes a gradient of ones and receives the new values.
bool dense(std::size_t bytes, double limit, Way way, const Place& place = {}) {
  const std::uint64_t elements = bytes / sizeof(float);
  Pair pair(parameters(elements, 0, "sgd"), way, 0, place);
  std::vector<client::DenseParameter> one(1);
  one[0].gradient.assign(elements, 1.0F);
  one[0].value.resize(elements);
  std::size_t steps = 0;
  const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double seconds = measure([&](std::size_t) {
                           ++steps;
                           return static_cast<bool>(pair.client().push(1, 0, one, {}));
                         }).median;
  const double cpu_per_step =
      (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / static_cast<double>(steps);
  const float expected = -kRate * static_cast<float>(steps);
  const bool good = seconds > 0 && std::all_of(one[0].value.begin(), one[0].value.end(),
                                               [&](float v) { return v == expected; });
  const double rate = 2.0 * static_cast<double>(bytes) / seconds;
  std::printf("%s push + pull %4zu KiB: %6.1f us, %.2f GB/s, %2.0f %% of raw TCP, CPU %6.1f us%s\n",
              kNames[static_cast<std::size_t>(way)], bytes >> 10U, seconds * 1e6, rate / 1e9,
              100 * rate / limit, cpu_per_step * 1e6, good ? "" : "  WRONG RESULT");
  return good;
}

// Prints million rows per second, and CPU time per row.
template <class Call>
double sparse_calls(std::size_t rows, Call call) {
  std::size_t calls = 0;
  const double all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double trainer = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  const Seconds taken = measure([&](std::size_t i) {
    ++calls;
    return call(i);
  });
  const double of_a_row = 1e9 / static_cast<double>(calls * rows);
  const double millions = static_cast<double>(rows) / 1e6;
  const double of_trainer = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - trainer;
  const double of_all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - all;
  std::printf(" %5.1f (at best %5.1f; CPU ns a row: pserver %4.1f, trainer %4.1f)",
              millions / taken.median, millions / taken.least, of_a_row * (of_all - of_trainer),
              of_a_row * of_trainer);
  return taken.median;
}

bool sparse(std::uint64_t width, std::uint64_t rows, std::size_t helpers) {
  Pair pair(parameters(0, width, "adagrad"), Way::kTcp, helpers);
  std::vector<client::SparseRows> batch(1);
  auto& table = batch[0];
  for (std::uint64_t done = 0; done < rows; done += kRequestIds) {
    table.ids.resize(kRequestIds);
    for (std::size_t i = 0; i < kRequestIds; ++i) table.ids[i] = mix64(done + i);
    std::sort(table.ids.begin(), table.ids.end());
    table.gradients.assign(kRequestIds * width, 1.0F);
    if (!pair.client().push(1, 0, {}, batch)) return false;
  }
  Rng rng(3);
  constexpr std::size_t kRequests = 10;
  std::vector<std::vector<client::SparseRows>> requests(kRequests, batch);
  for (auto& request : requests) {
    auto& ids = request[0].ids;
    for (std::uint64_t& id : ids) id = mix64(rng.below(rows));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    request[0].gradients.assign(ids.size() * width, 0.0F);
  }
  const std::size_t count = requests[0][0].ids.size();
  std::printf("dim %2lu, %lu rows, %zu helpers, million rows/s: pull", width, rows, helpers);
  const double pull = sparse_calls(
      count, [&](std::size_t i) { return bool(pair.client().pull_rows(requests[i % kRequests])); });
  bool good = pull > 0;
  for (const auto& request : requests) {
    for (const float value : request[0].values) {
      good = good && std::abs(value + kRate) < 1e-5F;  // one AdaGrad step of a gradient of 1
    }
  }
  std::printf(", push with AdaGrad");
  const double push = sparse_calls(count, [&](std::size_t i) {
    return bool(pair.client().push(1, 0, {}, requests[i % kRequests]));
  });
  good = good && push > 0;
  std::printf("%s\n", good ? "" : "  WRONG RESULT");
  return good;
}

}  // namespace
}  // namespace paddle

// wire_bench [rows [sparse]]: 0 skips the sparse part, "sparse" the dense one.
// wire_bench link clear|sealed ADDRESS SERVER_NAMESPACE TRAINER_NAMESPACE: for bench/sealed.
int main(int argc, char** argv) {
  using namespace paddle;
  keep_freed_memory();
  if (argc == 6 && std::string_view(argv[1]) == "link") {
    const Way way = std::string_view(argv[2]) == "sealed" ? Way::kSealed : Way::kTcp;
    bool good = true;
    for (const std::size_t kib : {64U, 1024U, 4096U})
      good = dense(kib << 10U, 1e9, way, {argv[3], argv[4], argv[5]}) && good;
    return good ? 0 : 1;
  }
  const std::uint64_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const double limit = raw_tcp();
  std::printf("raw TCP stream: %.2f GB/s\n", limit / 1e9);
  bool good = true;
  const bool has_dense = argc < 3 || std::string_view(argv[2]) != "sparse";
  for (const Way way : {Way::kTcp, Way::kSealed, Way::kSharedMemory}) {
    if (!has_dense) break;
    for (const std::size_t kib : {64U, 1024U, 4096U}) {
      good = dense(kib << 10U, limit, way) && good;
    }
  }
  for (const std::uint64_t width : {8U, 16U}) {
    for (const std::size_t helpers : {0U, 1U}) {
      good = (rows == 0 || sparse(width, rows, helpers)) && good;
    }
  }
  return good ? 0 : 1;
}
