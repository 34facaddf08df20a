// Two commands on one job at the same time: every pair of those that change or read one, each in a
// thread of its own, of which one runs at a time. Turns change with each call to a node, and time
// passes only when all wait; a seed draws both. The nodes are in memory; their processes train,
// save for a while when they are asked to stop, and lose what they save when they are ended.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <list>
#include <map>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/sim/seeds.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

constexpr const char* kSimJob = "job1";
constexpr Duration kEndOfSim = std::chrono::minutes(40);  // longer than any wait of a command
constexpr int kStepsMax = 200'000;

struct PaddlectlKilled {};

// One paddlectl: a thread that runs while it has the turn.
struct Actor {
  std::size_t number = 0;  // stands for its pid
  std::string name;
  std::vector<std::string> arguments;
  Duration begins{};
  Duration interrupted_at = Duration::max(), killed_at = Duration::max();
  bool has_turn = false, is_over = false, was_killed = false, interrupt_taken = false;
  TimePoint wakes;
  int code = -1;
  std::ostringstream out, err;
  std::condition_variable turn;
  std::thread thread;
};

class Turns {
 public:
  explicit Turns(std::uint64_t seed) : random_(seed) {}

  TimePoint now() const { return now_; }
  Duration passed() const { return now_.time_since_epoch(); }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  Duration draw_time(Duration most) {
    return Duration(static_cast<Duration::rep>(draw(static_cast<std::uint64_t>(most.count()))));
  }
  void at(Duration later, std::function<void()> event) {
    events_.emplace(now_ + later, std::move(event));
  }

  // In the thread of an actor: lets others run, until `wakes`.
  void pass(Actor& self, TimePoint wakes) {
    std::unique_lock lock(mutex_);
    self.wakes = wakes;
    self.has_turn = false;
    changed_.notify_all();
    self.turn.wait(lock, [&] { return self.has_turn; });
    if (passed() >= self.killed_at && !self.was_killed) {
      self.was_killed = true;
      throw PaddlectlKilled();
    }
  }
  void end(Actor& self) {
    const std::lock_guard lock(mutex_);
    self.is_over = true;
    self.has_turn = false;
    changed_.notify_all();
  }

  // Until all are over. False when they are not after a long time or many steps.
  bool run(std::list<Actor>& actors, const std::function<void(Actor&)>& start) {
    for (Actor& actor : actors) {
      actor.wakes = TimePoint(actor.begins);
      actor.thread = std::thread([&] {
        {
          std::unique_lock lock(mutex_);
          actor.turn.wait(lock, [&] { return actor.has_turn; });
        }
        start(actor);
        end(actor);
      });
    }
    bool all_end = true;
    for (int steps = 0; std::ranges::any_of(actors, [](const Actor& a) { return !a.is_over; });) {
      if (++steps > kStepsMax || passed() > kEndOfSim) {
        all_end = false;
        for (Actor& actor : actors) actor.killed_at = Duration();
      }
      step(actors);
    }
    for (Actor& actor : actors) actor.thread.join();
    return all_end;
  }
  // The events of `more` time.
  void play(Duration more) {
    for (const TimePoint until = now_ + more;;) {
      if (events_.empty() || events_.begin()->first > until) break;
      play_next();
    }
  }

 private:
  void play_next() {
    auto event = events_.extract(events_.begin());
    now_ = std::max(now_, event.key());
    event.mapped()();
  }
  void step(std::list<Actor>& actors) {
    std::vector<Actor*> ready;
    TimePoint next = events_.empty() ? TimePoint::max() : events_.begin()->first;
    for (Actor& actor : actors) {
      if (actor.is_over) continue;
      if (actor.wakes <= now_) ready.push_back(&actor);
      next = std::min(next, actor.wakes);
    }
    if (ready.empty() || (next <= now_ && draw(4) == 0)) {
      if (!events_.empty() && events_.begin()->first <= next) return play_next();
      if (ready.empty()) {
        now_ = next;
        return;
      }
    }
    Actor& chosen = *ready.at(draw(ready.size()));
    now_ += std::chrono::milliseconds(draw(20));  // the time of a call
    std::unique_lock lock(mutex_);
    chosen.has_turn = true;
    chosen.turn.notify_all();
    changed_.wait(lock, [&] { return !chosen.has_turn; });
  }

  std::mt19937_64 random_;
  TimePoint now_;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct SimClock final : Clock {
  explicit SimClock(const Turns& of) : turns_(of) {}
  TimePoint now() const override { return turns_.now(); }
  const Turns& turns_;
};

// The processes of one job on two nodes, and what must not happen to them.
class World {
 public:
  explicit World(Turns& turns) : turns_(turns) {
    for (FakeNode& node : nodes) {
      node.on_start = [this, &node](FakeNode&, ProcessStatus& status) { begin(node, status); };
    }
  }

  // Sets the node's clock.
  void look(FakeNode& node) const {
    node.usage.unix_ms =
        1'000'000 + std::chrono::duration_cast<std::chrono::milliseconds>(turns_.passed()).count();
  }
  int teardowns(const FakeNode& node) const { return teardowns_[index_of(node)]; }
  void tear_down(FakeNode& node) {
    for (const ProcessStatus& process : node.processes) end_by_order(node, process, "teardown");
    ++teardowns_[index_of(node)];
  }
  void ask(FakeNode& node, const std::string& process, const std::string& by) {
    ProcessStatus* const status = find(node, process);
    if (status == nullptr || status->state != ProcessState::kRunning) return;
    if (!status->stopped_by.empty()) return;  // an agent asks once
    status->stopped_by = by;
    turns_.at(std::chrono::milliseconds(100) + turns_.draw_time(std::chrono::seconds(6)),
              [this, &node, process, incarnation = status->incarnation] {
                end(node, process, incarnation, static_cast<int>(Errc::kResumable), true);
              });
  }
  void order_end(FakeNode& node, const std::string& by) {
    for (ProcessStatus& process : node.processes) {
      if (process.state != ProcessState::kRunning) continue;
      end_by_order(node, process, by);
      process.state = ProcessState::kExited;
      process.exit_code = static_cast<int>(Errc::kInterrupted);
      process.stopped = process.stop_ordered = true;
      process.stopped_by = by;
      process.ended_unix_ms = node.usage.unix_ms;
    }
  }
  void forget(FakeNode& node) {
    for (const ProcessStatus& process : node.processes) {
      if (process.state == ProcessState::kRunning)
        wrong.push_back(process.name + " runs, and its record was removed");
    }
    node.processes.clear();
  }
  std::vector<std::string> running() const {
    std::vector<std::string> names;
    for (const FakeNode& node : nodes) {
      for (const ProcessStatus& process : node.processes) {
        if (process.state == ProcessState::kRunning) names.push_back(process.name);
      }
    }
    return names;
  }
  std::string all() const {
    std::string text;
    for (const FakeNode& node : nodes) {
      for (const ProcessStatus& process : node.processes)
        text += fmt::format("{} {} {}, incarnation {}; ", process.name, int(process.state),
                            process.exit_code, process.incarnation);
    }
    return text;
  }

  std::array<FakeNode, 2> nodes;
  Duration job_takes = std::chrono::seconds(25);
  std::vector<std::string> wrong;  // all that went wrong
  int saves = 0, starts = 0;

 private:
  std::size_t index_of(const FakeNode& node) const {
    return static_cast<std::size_t>(&node - nodes.data());
  }
  static ProcessStatus* find(FakeNode& node, const std::string& name) {
    const auto found = std::ranges::find(node.processes, name, &ProcessStatus::name);
    return found == node.processes.end() ? nullptr : &*found;
  }
  // With the node's lock held.
  void begin(FakeNode& node, ProcessStatus& status) {
    ++starts;
    status.started_unix_ms = node.usage.unix_ms;
    status.restarts_allowed = 5;
    if (status.name.starts_with("pserver-")) {
      status.phase = remote::Phase::kReady;
      return;
    }
    status.progress.emplace();
    status.progress->unix_ms = node.usage.unix_ms;
    status.progress->passes = 3;
    status.progress->batch = 7;
    node.files[status.log] = "trains\n";
    if (status.name == "trainer-0") node.files["jobs/job1/output/pass-00000/MANIFEST"] = "m";
    turns_.at(job_takes, [this, &node, process = status.name, incarnation = status.incarnation] {
      end(node, process, incarnation, 0, false);
    });
  }
  void end(FakeNode& node, const std::string& name, std::uint32_t incarnation, int code,
           bool is_save) {
    ProcessStatus* const status = find(node, name);
    if (status == nullptr || status->incarnation != incarnation ||
        status->state != ProcessState::kRunning)
      return;
    look(node);
    if (is_save && name == "trainer-0") ++saves;
    status->state = ProcessState::kExited;
    status->exit_code = code;
    status->stopped = is_save;
    status->ended_unix_ms = node.usage.unix_ms;
    const auto left = running();
    if (std::ranges::any_of(left, [](const auto& n) { return n.starts_with("trainer-"); })) return;
    turns_.at(std::chrono::milliseconds(200), [this] { end_pservers(); });
  }
  // Once all trainers have left.
  void end_pservers() {
    const auto left = running();
    if (std::ranges::any_of(left, [](const auto& n) { return n.starts_with("trainer-"); })) return;
    for (FakeNode& node : nodes) {
      look(node);
      for (ProcessStatus& process : node.processes) {
        const bool has_served = node.usage.unix_ms > process.started_unix_ms + 3'000;
        if (process.state == ProcessState::kRunning && has_served)
          process.state = ProcessState::kExited;
      }
    }
  }
  void end_by_order(const FakeNode&, const ProcessStatus& process, const std::string& by) {
    const bool is_saving = process.state == ProcessState::kRunning &&
                           !process.name.starts_with("pserver-") && !process.stopped_by.empty();
    if (is_saving && by.find("stop --now") == std::string::npos)
      wrong.push_back(fmt::format("{} was ended by {} while it saved", process.name, by));
  }

  Turns& turns_;
  std::array<int, 2> teardowns_{};
};

// A connection of one paddlectl. Each call is a turn.
class SimClient final : public remote::FakeAgentClient {
 public:
  SimClient(remote::NodeSpec spec, FakeNode& node, World& world, Turns& turns, Actor& actor)
      : FakeAgentClient(std::move(spec), node),
        world_(world),
        turns_(turns),
        actor_(actor),
        teardowns_(world.teardowns(node)) {}

  Result<wire::agent::Facts> facts() override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::facts();
  }
  using AgentClient::push;
  Result<remote::PushStats> push(const std::vector<remote::PushItem>& items,
                                 remote::PushSource& source, const remote::PushProgress& progress,
                                 const std::string& keep_only) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::push(items, source, progress, keep_only);
  }
  Result<std::vector<remote::FileEntry>> list(const std::string& folder) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::list(folder);
  }
  Status fetch(const std::vector<remote::FetchItem>& items) override {
    for (const remote::FetchItem& item : items) {
      PADDLE_TRY_STATUS(step());
      {
        const std::lock_guard lock(fake().mutex);
        if (!fake().files.contains(item.remote_path))
          return Error{Errc::kData, item.remote_path + " is gone", ""};
      }
      PADDLE_TRY_STATUS(FakeAgentClient::fetch({item}));
    }
    return {};
  }
  Status remove(const std::string& path) override {
    PADDLE_TRY_STATUS(step());
    const std::lock_guard lock(removing_);
    if (path == "jobs/job1" || path == "jobs/job1/proc") world_.forget(fake());
    return FakeAgentClient::remove(path);
  }
  Result<std::vector<remote::JobClaim>> claim_job(const remote::WantedClaim& wanted) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::claim_job(wanted);
  }
  Status release_job(const std::string& job) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::release_job(job);
  }
  Status write_keys(const std::string& job, const std::string& process, ByteSpan keys) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::write_keys(job, process, keys);
  }
  Result<std::vector<remote::PortStatus>> check_ports(const std::string& address,
                                                      std::uint16_t first,
                                                      std::uint16_t count) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::check_ports(address, first, count);
  }
  Status start(const remote::ProcessSpec& process) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::start(process);
  }
  Result<std::vector<ProcessStatus>> processes(const std::string& job) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::processes(job);
  }
  Status stop(const std::string& job, const std::vector<std::string>&, Duration) override {
    PADDLE_TRY_STATUS(step());
    const std::lock_guard lock(fake().mutex);
    world_.order_end(fake(), stopper(job));
    return {};
  }
  Status ask_to_stop(const std::string& job, const std::vector<std::string>& names) override {
    PADDLE_TRY_STATUS(step());
    const std::lock_guard lock(fake().mutex);
    for (const std::string& name : names) world_.ask(fake(), name, stopper(job));
    return {};
  }
  Result<remote::FilePart> read_file(const std::string& path, std::uint64_t offset,
                                     std::uint32_t max_bytes, std::int64_t since) override {
    PADDLE_TRY_STATUS(step());
    return FakeAgentClient::read_file(path, offset, max_bytes, since);
  }
  Result<wire::agent::TeardownReply> teardown(bool keep_data) override {
    PADDLE_TRY_STATUS(step());
    world_.tear_down(fake());
    {
      const std::lock_guard lock(fake().mutex);
      fake().claims.clear();
    }
    return FakeAgentClient::teardown(keep_data);
  }

 private:
  Status step() {
    turns_.pass(actor_, turns_.now());
    world_.look(fake());
    if (world_.teardowns(fake()) == teardowns_) return {};
    return Error{Errc::kUnreachable, "node " + node().name + ": lost the agent: closed by peer",
                 ""};
  }

  World& world_;
  Turns& turns_;
  Actor& actor_;
  int teardowns_;
  std::mutex removing_;
};

class TwoCommandsSim : public ::testing::Test {
 protected:
  TwoCommandsSim() {
    folder_.write("c.toml",
                  "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
    folder_.write("paddle", "engine");
    folder_.write("w/job.toml", kJob);
    folder_.write("w/data/train-00000", "1\ta b\n");
    folder_.write("w/data/train-00001", "0\tb\n");
    folder_.write("w/data/test.txt", "1\ta\n");
    folder_.write("w/data/dictionary.txt", "a\nb\n<unk>\n");
  }

  struct Scene {
    std::uint64_t seed = 0;
    Turns turns{seed};
    World world{turns};
    std::list<Actor> actors;
    bool all_end = false;

    explicit Scene(std::uint64_t s) : seed(s) {}
    Actor& add(std::vector<std::string> arguments, Duration begins) {
      Actor& actor = actors.emplace_back();
      actor.number = actors.size();
      actor.arguments = std::move(arguments);
      actor.name = fmt::format("{}", fmt::join(actor.arguments, " "));
      actor.begins = begins;
      return actor;
    }
    std::string story() const {
      std::string text = fmt::format("at the end: {}\n", world.all());
      for (const Actor& actor : actors)
        text +=
            fmt::format("== at {} ms: {}: {}\n{}{}\n",
                        std::chrono::duration_cast<std::chrono::milliseconds>(actor.begins).count(),
                        actor.name, actor.code, actor.out.str(), actor.err.str());
      return text;
    }
  };

  void run_actor(Scene& scene, Actor& actor) {
    try {
      actor.code = run_command(scene, actor);
    } catch (const PaddlectlKilled&) {
      actor.code = 137;
    }
    check_end(scene, actor);
  }

  // No command may end with words that are untrue at that moment.
  static void check_end(Scene& scene, const Actor& actor) {
    const auto left = scene.world.running();
    const bool is_stop = std::ranges::find(actor.arguments, "stop") != actor.arguments.end();
    if (is_stop && actor.code == 0 && !left.empty()) {
      scene.world.wrong.push_back(
          fmt::format("{} says that it stopped the job, and {} runs", actor.name, left.front()));
    }
  }

  int run_command(Scene& scene, Actor& actor) {
    Turns& turns = scene.turns;
    const SimClock clock(turns);
    Console console(actor.out, actor.err, {});
    Context context{
        console,
        clock,
        [&](const remote::NodeSpec& spec,
            bool create) -> Result<std::unique_ptr<remote::AgentClient>> {
          turns.pass(actor, turns.now());
          FakeNode& node = scene.world.nodes[spec.name == "n-0" ? 0 : 1];
          if (node.torn_down && !create) return std::unique_ptr<remote::AgentClient>();
          node.torn_down = false;
          return std::unique_ptr<remote::AgentClient>(
              new SimClient(spec, node, scene.world, turns, actor));
        },
        [&](Duration pause) { turns.pass(actor, turns.now() + pause); },
        [&] { return turns.passed() >= actor.interrupted_at && !actor.interrupt_taken; },
        [] { return std::int64_t{0}; },
        folder_ / "paddle",
        folder_.path()};
    context.take_interrupt = [&] { actor.interrupt_taken = true; };
    context.who = fmt::format("user@host, pid {}", actor.number);
    std::vector<std::string> arguments{"--parallel", "1"};
    arguments.insert(arguments.end(), actor.arguments.begin(), actor.arguments.end());
    return run_app(context, arguments);
  }

  void play(Scene& scene) {
    scene.all_end = scene.turns.run(scene.actors, [&](Actor& actor) { run_actor(scene, actor); });
    // A job runs whole to its end, or not at all.
    scene.turns.play(std::chrono::minutes(5));
    const auto left = scene.world.running();
    if (!left.empty()) scene.world.wrong.push_back(left.front() + " never ends");
    EXPECT_TRUE(scene.all_end) << "a command does not end";
    for (const std::string& what : scene.world.wrong) ADD_FAILURE() << what;
    if (HasFailure()) std::cerr << scene.story();
  }

  // A job that somebody has started and follows.
  Actor& start_job(Scene& scene) {
    scene.add({"up", "c.toml"}, Duration());
    return scene.add({"train", "--name", kSimJob, "--trainers", "2", "--pservers", "1", "w"},
                     std::chrono::seconds(2));
  }
  Duration running_at() const { return std::chrono::seconds(10); }

  const test::TemporaryFolder folder_;
};

using Typed = std::vector<std::string>;

// The fifteen, as typed on one job.
const std::map<std::string, Typed>& typed() {
  static const std::map<std::string, Typed> all{
      {"train", {"train", "--name", kSimJob, "--trainers", "2", "--pservers", "1", "w"}},
      {"resume", {"train", "--resume", "--name", kSimJob, "w"}},
      {"stop", {"stop", "--job", kSimJob}},
      {"stop-now", {"stop", "--now", "--job", kSimJob}},
      {"restart", {"restart", "--job", kSimJob}},
      {"restart-process", {"restart", "--job", kSimJob, "trainer-1"}},
      {"rm", {"rm", kSimJob, "--yes", "--discard"}},
      {"teardown", {"teardown", "--yes", "--discard"}},
      {"fetch", {"fetch", "--job", kSimJob}},
      {"attach", {"attach", "--job", kSimJob}},
      {"status", {"status", "--job", kSimJob}},
      {"jobs", {"jobs"}},
      {"logs", {"logs", "--job", kSimJob}},
      {"report", {"report", kSimJob}},
      {"up", {"up", "c.toml"}}};
  return all;
}

// A test for each first command.
class TwoCommandsSimEach : public TwoCommandsSim,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  static std::uint64_t seed_of(std::uint64_t seed, const std::string& names) {
    return seed * 1000 + std::hash<std::string>()(names) % 1000;
  }
};

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

class EveryPairSim : public TwoCommandsSimEach {};

TEST_P(EveryPairSim, OnAJobThatRuns) {
  const std::string first = GetParam();
  sim::for_seeds(1, [&](std::uint64_t seed) {
    for (const auto& [second, second_words] : typed()) {
      SCOPED_TRACE(first + " and " + second);
      Scene scene(seed_of(seed, first + second));
      start_job(scene);
      scene.add(typed().at(first), running_at());
      scene.add(second_words, running_at() + scene.turns.draw_time(std::chrono::seconds(4)));
      play(scene);
      if (HasFailure()) return;
    }
  });
}

TEST_P(EveryPairSim, OnAJobThatHasEnded) {
  const std::string first = GetParam();
  sim::for_seeds(1, [&](std::uint64_t seed) {
    for (const auto& [second, second_words] : typed()) {
      SCOPED_TRACE(first + " and " + second);
      Scene scene(seed_of(seed, first + second));
      scene.world.job_takes = std::chrono::seconds(5);
      start_job(scene);
      scene.add(typed().at(first), std::chrono::seconds(20));
      scene.add(second_words,
                std::chrono::seconds(20) + scene.turns.draw_time(std::chrono::seconds(1)));
      play(scene);
      if (HasFailure()) return;
    }
  });
}

constexpr std::array kFifteen{"attach",  "fetch",           "jobs",     "logs",  "report",
                              "restart", "restart-process", "resume",   "rm",    "status",
                              "stop",    "stop-now",        "teardown", "train", "up"};
INSTANTIATE_TEST_SUITE_P(All, EveryPairSim, ::testing::ValuesIn(kFifteen), name_of);

TEST_F(TwoCommandsSim, TheFifteenAreAllThatAreTyped) {
  ASSERT_EQ(typed().size(), kFifteen.size());
  for (const char* const name : kFifteen) EXPECT_TRUE(typed().contains(name)) << name;
}

constexpr std::array kChanging{"resume",          "stop", "stop-now", "restart",
                               "restart-process", "rm",   "teardown"};

// Anywhere within the other: at its start, its stop, its end.
class ChangesAtAnyTimeSim : public TwoCommandsSimEach {};

TEST_P(ChangesAtAnyTimeSim, BesideEachOther) {
  const std::string first = GetParam();
  sim::for_seeds(2, [&](std::uint64_t seed) {
    for (const std::string second : kChanging) {
      for (const std::string third : {"stop", "restart", "attach"}) {
        SCOPED_TRACE(fmt::format("{}, {} and {}", first, second, third));
        Scene scene(seed_of(seed, first + second + third));
        scene.world.job_takes = std::chrono::seconds(12);
        start_job(scene);
        for (const std::string& name : {first, second, third})
          scene.add(typed().at(name), scene.turns.draw_time(std::chrono::seconds(25)));
        play(scene);
        if (HasFailure()) return;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ChangesAtAnyTimeSim, ::testing::ValuesIn(kChanging), name_of);

TEST_F(TwoCommandsSim, StopsBesideStopsSaveAndEndAlike) {
  sim::for_seeds(40, [&](std::uint64_t seed) {
    Scene scene(seed);
    Actor& train = start_job(scene);
    const bool with_ctrl_c = scene.turns.draw(2) == 0;
    if (with_ctrl_c)
      train.interrupted_at = running_at() + scene.turns.draw_time(std::chrono::seconds(2));
    std::vector<Actor*> stops;
    for (std::uint64_t i = 0; i < 2 + seed % 2; ++i) {
      stops.push_back(&scene.add(typed().at("stop"),
                                 running_at() + scene.turns.draw_time(std::chrono::seconds(2))));
    }
    play(scene);
    EXPECT_EQ(train.code, 75) << scene.story();
    EXPECT_EQ(scene.world.saves, 1) << scene.story();
    for (const Actor* const stop : stops) EXPECT_EQ(stop->code, 0) << scene.story();
  });
}

TEST_F(TwoCommandsSim, AStopNowIsTheOneThatAborts) {
  sim::for_seeds(20, [&](std::uint64_t seed) {
    Scene scene(seed);
    Actor& train = start_job(scene);
    Actor& stop = scene.add(typed().at("stop"), running_at());
    Actor& now = scene.add(typed().at("stop-now"), running_at() + std::chrono::milliseconds(400));
    play(scene);
    EXPECT_EQ(now.code, 0) << scene.story();
    if (scene.world.saves == 1) return;
    EXPECT_EQ(stop.code, 1) << scene.story();
    EXPECT_NE(stop.err.str().find("ended by paddlectl stop --now of user@host"), std::string::npos)
        << scene.story();
    EXPECT_NE(train.err.str().find("ended by paddlectl stop --now of user@host"), std::string::npos)
        << scene.story();
  });
}

TEST_F(TwoCommandsSim, AStopBesideARestartEndsTheJobOrComesFirst) {
  sim::for_seeds(40, [&](std::uint64_t seed) {
    Scene scene(seed);
    Actor& train = start_job(scene);
    Actor& restart = scene.add(typed().at("restart"), running_at());
    Actor& stop = scene.add(typed().at("stop"),
                            running_at() + scene.turns.draw_time(std::chrono::seconds(7)));
    play(scene);
    EXPECT_EQ(stop.code, 0) << scene.story();
    EXPECT_EQ(train.code, 75) << scene.story();
    // Restarted first and stopped then, or stopped and not restarted.
    EXPECT_EQ(scene.world.starts, restart.code == 0 ? 6 : 3) << scene.story();
    EXPECT_TRUE(restart.code == 0 || restart.code == 2) << scene.story();
  });
}

TEST_F(TwoCommandsSim, RestartsBesideRestartsAreOne) {
  sim::for_seeds(20, [&](std::uint64_t seed) {
    Scene scene(seed);
    Actor& train = start_job(scene);
    Actor& first = scene.add(typed().at("restart"), running_at());
    Actor& second = scene.add(typed().at("restart"), running_at() + std::chrono::milliseconds(300));
    play(scene);
    EXPECT_EQ(first.code, 0) << scene.story();
    EXPECT_EQ(second.code, 0) << scene.story();
    EXPECT_EQ(train.code, 0) << scene.story();
    EXPECT_EQ(scene.world.starts, 6) << scene.story();
  });
}

TEST_F(TwoCommandsSim, FetchesIntoOneFolderAllEndWell) {
  sim::for_seeds(20, [&](std::uint64_t seed) {
    Scene scene(seed);
    scene.world.job_takes = std::chrono::seconds(5);
    Actor& train = start_job(scene);
    std::vector<Actor*> others;
    for (const char* const name : {"fetch", "fetch", "attach", "attach", "report"})
      others.push_back(
          &scene.add(typed().at(name),
                     std::chrono::seconds(4) + scene.turns.draw_time(std::chrono::seconds(6))));
    play(scene);
    EXPECT_EQ(train.code, 0) << scene.story();
    for (const Actor* const other : others) EXPECT_EQ(other->code, 0) << scene.story();
    EXPECT_TRUE(std::filesystem::exists(folder_ / "output/job1/pass-00000/MANIFEST"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "output/job1/.paddlectl-lock"));
  });
}

// Whoever comes after a paddlectl that was killed is not held up, and ends what that one began.
TEST_F(TwoCommandsSim, AKilledCommandLeavesTheJobToTheNext) {
  sim::for_seeds(40, [&](std::uint64_t seed) {
    Scene scene(seed);
    start_job(scene);
    const char* const kFirst[] = {"stop", "restart", "fetch", "stop-now"};
    Actor& first = scene.add(typed().at(kFirst[seed % 4]), running_at());
    first.killed_at = running_at() + scene.turns.draw_time(std::chrono::seconds(4));
    Actor& stop = scene.add(typed().at("stop"), running_at() + std::chrono::milliseconds(200) +
                                                    scene.turns.draw_time(std::chrono::seconds(5)));
    play(scene);
    const bool is_saved = seed % 4 != 3;  // unless a stop --now ended it
    EXPECT_TRUE(stop.code == 0 || (!is_saved && stop.code == 1)) << scene.story();
  });
}

}  // namespace
}  // namespace paddle::cli
