// The provider of kind "slurm": the nodes of one Slurm job, found by its name and user. Commands,
// options and states are those of Slurm 20.11 and later: https://slurm.schedmd.com/archive/.
//
//   sbatch --> job "paddlectl-NAME" --> one step on all of its nodes: kHold
//                                          | fork
//   srun --overlap -w HOST -- kEnter ==> /bin/sh --> agent --> supervisors --> processes
//            (a step for each connection)
//
// Slurm ends the processes of a step with the step, so what has to outlive a connection runs below
// the step that lasts as long as the job. A connection only copies its stdin and stdout.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/program.h"
#include "cli/cluster/provider.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr std::chrono::seconds kQueueTimeout{3600};
constexpr std::chrono::seconds kSlurmCallTimeout{60};
constexpr std::chrono::seconds kCancelTimeout{300};
constexpr Duration kQueueLook = std::chrono::seconds(1);
constexpr std::int64_t kCpusMax = 4096;
constexpr std::int64_t kSlurmGpusMax = 64;
constexpr std::size_t kExtraMax = 64;
// A job is asked to save this long before its time ends, or a tenth of a shorter time before. Slurm
// itself is exact to a minute.
constexpr std::int64_t kSaveBeforeS = 300;
constexpr std::int64_t kSaveBeforeMinS = 60;
constexpr const char* kInstallHint =
    "run paddlectl where Slurm's commands are, such as a login node of the cluster";

// Runs on each node of the job, for as long as the job. It starts a shell for each number that it
// reads from the fifo `calls`; the shell's stdin, stdout, stderr and exit status are fifos that the
// caller has made. SIGURG is --signal of the job: supervisors let their trainers save. At SIGTERM
// the job is over. A folder that exists already may be another user's, so it is no place for us.
constexpr const char* kHold = R"sh(
umask 077
d=/tmp/paddlectl-$SLURM_JOB_ID-$SLURMD_NODENAME
mkdir $d && mkfifo $d/calls || exit 1
exec 3<>$d/calls
tell() {
  for f in /proc/*; do
    test -r $f/environ || continue
    tr "\000" " " <$f/cmdline | grep -q "^paddlectl-agent supervise " || continue
    tr "\000" "\n" <$f/environ | grep -qx "SLURM_JOB_ID=$SLURM_JOB_ID" || continue
    tr "\000" "\n" <$f/environ | grep -qx "SLURMD_NODENAME=$SLURMD_NODENAME" || continue
    kill -s $1 ${f#/proc/}
  done 2>/dev/null
}
trap "tell URG" URG
trap "rm -rf $d; tell TERM; exit 0" TERM
while read -r n <&3; do
  { /bin/sh <$d/$n/in >$d/$n/out 2>$d/$n/err 3>&-; echo $?; } >$d/$n/end 3>&- &
done &
p=$!
cat >$d/new <<"END"
f=${0%/*}/$SLURM_STEP_ID
mkdir -m 700 $f && mkfifo $f/in $f/out $f/err $f/end || exit 1
exec 3<&0 </dev/null
cat <&3 >$f/in & i=$!
exec 3<&-
cat $f/out & o=$!
cat $f/err >&2 & e=$!
echo $SLURM_STEP_ID >${0%/*}/calls
c=$(cat $f/end)
wait $o $e
kill $i
rm -rf $f
exit $c
END
mv $d/new $d/enter
while kill -0 $p; do wait $p; done
)sh";

// The command of a connection: waits until kHold, which Slurm may have started just now, accepts
// it. It runs no script of another user.
constexpr const char* kEnter =
    "f=/tmp/paddlectl-$SLURM_JOB_ID-$SLURMD_NODENAME/enter; i=0; "
    "until test -O $f; do i=$((i + 1)); test $i -lt 75 || "
    "{ echo \"the job does not keep this node: there is no $f\" >&2; exit 1; }; "
    "sleep 0.2 || sleep 1; done; ";
constexpr const char* kThenShell = "exec /bin/sh $f";

std::vector<std::string_view> output_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// A Slurm job of this cluster, as squeue prints it.
struct Allocation {
  std::string id;
  std::string state;
  std::string node_count;
  std::string left;    // "1-02:03:04"
  std::string hosts;   // "n[1-2]"
  std::string reason;  // why it waits, or how it ended; "None"

  bool runs() const { return state == "RUNNING"; }
  bool waits() const {
    return state == "PENDING" || state == "CONFIGURING" || state.starts_with("REQUEUE");
  }
  bool is_ending() const { return state == "COMPLETING" || state == "STAGE_OUT"; }
  bool has_ended() const {
    constexpr std::array<std::string_view, 10> kEnds{
        "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
        "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};
    return std::ranges::find(kEnds, state) != kEnds.end();
  }
  bool lives() const { return !is_ending() && !has_ended(); }
  std::uint64_t number() const {
    std::uint64_t value = 0;
    std::from_chars(id.data(), id.data() + id.size(), value);
    return value;
  }
};

// Seconds of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
// "days-hours:minutes" or "days-hours:minutes:seconds"; 0: another text, such as UNLIMITED.
std::int64_t seconds_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("-:", at), text.size());
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + end, number);
    if (read.ec != std::errc() || read.ptr != text.data() + end || number < 0 || number > 1'000'000)
      return 0;
    numbers.push_back(number);
    at = end + 1;
  }
  constexpr std::array<std::int64_t, 4> kDays{86400, 3600, 60, 1};
  const bool has_days = dash != std::string_view::npos;
  // Without days the last number counts seconds, but one alone counts minutes.
  const std::size_t first = has_days ? 0 : numbers.size() == 1 ? 2 : 4 - numbers.size();
  if (numbers.size() > (has_days ? 4U : 3U)) return 0;
  std::int64_t seconds = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * kDays[first + i];
  return seconds;
}

// Whether a job that waits for this reason will wait for ever.
bool is_hopeless(std::string_view reason) {
  constexpr std::array<std::string_view, 7> kReasons{
      "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount",    "InvalidQOS",
      "JobHeldAdmin",   "PartitionNodeLimit",       "PartitionTimeLimit"};
  return std::ranges::find(kReasons, reason) != kReasons.end() || reason.ends_with("PerJobLimit") ||
         reason.ends_with("PerJob");
}

std::string words_of_end(const Allocation& job) {
  const std::string_view state = job.state;
  std::string_view words;
  if (state == "TIMEOUT") words = "its time limit was reached";
  if (state == "NODE_FAIL") words = "one of its nodes failed";
  if (state == "PREEMPTED") words = "another job took its nodes";
  if (state == "CANCELLED") words = "it was cancelled";
  if (state == "COMPLETING") words = "it is ending";
  if (words.empty() && job.reason != "None") words = job.reason;
  return fmt::format("Slurm ended job {}: {}{}", job.id, state,
                     words.empty() ? "" : fmt::format(" ({})", words));
}

// The messages of one of Slurm's commands without its name, in one line.
std::string slurm_words(const ProgramEnd& end, const std::string& program) {
  std::vector<std::string_view> lines;
  for (std::string_view line : output_lines(end.errors)) {
    for (const std::string& prefix : {program + ": ", std::string("error: ")}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    if (!line.empty()) lines.push_back(line);
  }
  return lines.empty() ? fmt::format("{} exited with status {}", program, end.status)
                       : fmt::format("{}", fmt::join(lines, "; "));
}

// An error of Slurm, with the next step for those that people meet.
Error slurm_error(const ProgramEnd& end, const std::string& program, std::string_view doing) {
  const std::string words = slurm_words(end, program);
  Error error{Errc::kFailed, fmt::format("{}: {}", doing, words), ""};
  const auto has = [&](std::string_view text) { return words.find(text) != std::string::npos; };
  if (has("artition")) {
    error.hint = "sinfo lists the partitions; set [provider] partition";
  } else if (has("account") || has("Account")) {
    error.hint = "sacctmgr show associations user=$USER lists yours; set [provider] account";
  } else if (has("Memory") || has("Requested node configuration") || has("gres") || has("CPU")) {
    error.hint = "sinfo --Node --long lists what nodes have; change cpus, memory or gpus";
  } else if (has("ime limit") || has("TimeLimit")) {
    error.hint = "sinfo lists the time limits of partitions; set [provider] time";
  } else if (has("contact") || has("onnect") || has("configuration source")) {
    error.code = Errc::kUnreachable;
    error.hint = kInstallHint;
  }
  if (!error.hint.empty() && error.code == Errc::kFailed) error.code = Errc::kUsage;
  return error;
}

Result<ProgramEnd> run_slurm(const ProgramCall& call) {
  auto end = run_program(call);
  if (end || end.error().code != Errc::kUsage) return end;
  Error error = std::move(end).error();
  error.hint = kInstallHint;
  return error;
}

struct SlurmKeys {
  std::string partition, time, memory, account;
  std::uint32_t nodes = 1;
  std::int64_t cpus = 0;  // of each node; 0: whole nodes
  std::int64_t gpus = 0;  // of each node
  std::vector<std::string> extra;
  Duration timeout{};
};

SlurmKeys read_slurm_keys(config::TomlTable& table) {
  SlurmKeys keys;
  keys.partition = table.string("partition");
  keys.nodes = read_nodes_wanted(table);
  keys.time = table.string("time");
  if (!keys.time.empty() && seconds_of(keys.time) == 0) {
    table.fail("time", fmt::format("'{}' is not a time of Slurm", keys.time),
               "write time = \"2:00:00\" (hours), \"90\" (minutes) or \"1-12\" (days-hours)");
  }
  keys.cpus = table.integer("cpus", 0, 0, kCpusMax);
  keys.memory = table.string("memory");
  keys.gpus = table.integer("gpus", 0, 0, kSlurmGpusMax);
  keys.account = table.string("account");
  keys.extra = table.strings("extra", kExtraMax);
  for (const std::string& word : keys.extra) {
    if (!word.starts_with('-'))
      table.fail("extra", fmt::format("'{}' is no option of sbatch", word),
                 "write extra = [\"--qos=high\", \"--constraint=ib\"]");
  }
  keys.timeout = read_create_timeout(table, kQueueTimeout);
  return keys;
}

class SlurmProvider final : public Provider {
 public:
  SlurmProvider(SlurmKeys keys, const ProvidedCluster& cluster)
      : keys_(std::move(keys)), cluster_(cluster.name), job_("paddlectl-" + cluster.name) {}

  std::string describe() const override {
    return fmt::format("{} of Slurm{}", counted(keys_.nodes, "node"),
                       keys_.partition.empty() ? "" : ", partition " + keys_.partition);
  }

  // Slurm checks the request and says when it could start.
  Result<std::string> plan(const ProviderWork& work) const override {
    PADDLE_TRY(const ProgramEnd end, run_slurm(submission({"--test-only"}, work)));
    if (!end.ok()) return slurm_error(end, "sbatch", "Slurm refuses the job");
    return fmt::format("{}\nSlurm: {}\n", fmt::join(request(), " "), slurm_words(end, "sbatch"));
  }

  Status create(const ProviderWork& work) const override {
    const TimePoint deadline = std::chrono::steady_clock::now() + keys_.timeout;
    std::string submitted;
    for (;;) {
      PADDLE_TRY(const std::vector<Allocation> jobs, look(work));
      const Allocation* const job = chosen(jobs);
      PADDLE_TRY_STATUS(cancel_later_ones(jobs, job, work));
      const Allocation* const lost = job == nullptr ? with_id(jobs, submitted) : nullptr;
      if (lost != nullptr && !lost->is_ending()) {
        return Error{Errc::kFailed, words_of_end(*lost),
                     "for its messages add extra = [\"--output=/a/shared/folder/%j.log\"]"};
      }
      if (job == nullptr && lost == nullptr) {
        PADDLE_TRY(submitted, submit(work));
        work.note(fmt::format("Slurm job {} ({})", submitted, job_));
      } else if (job != nullptr) {
        PADDLE_TRY_STATUS(check_size(*job));
        if (job->runs()) return await_hold(*job, deadline, work);
        work.progress(fmt::format("job {} waits for {}: {}", job->id, describe(), job->reason));
        if (is_hopeless(job->reason)) return withdraw(*job, work);
      }
      if (work.interrupted()) {
        return Error{Errc::kInterrupted, "interrupted; the job stays in Slurm's queue",
                     "paddlectl up goes on with it, paddlectl teardown removes it"};
      }
      if (std::chrono::steady_clock::now() >= deadline) return still_waiting(job);
      work.pause(kQueueLook);
    }
  }

  Result<std::vector<ProvidedNode>> list() const override {
    PADDLE_TRY(const std::vector<Allocation> jobs, look({}));
    const Allocation* const job = chosen(jobs);
    std::vector<ProvidedNode> nodes;
    if (job == nullptr) return nodes;
    if (!job->runs()) {  // one entry for all
      const std::string range = keys_.nodes > 1 ? fmt::format("[0-{}]", keys_.nodes - 1) : "0";
      nodes.push_back({.name = fmt::format("{}-{}", cluster_, range),
                       .state = job->waits()
                                    ? fmt::format("pending: job {} waits: {}", job->id, job->reason)
                                    : fmt::format("{} with job {}", job->state, job->id)});
      return nodes;
    }
    PADDLE_TRY(const std::vector<std::string> hosts, hosts_of(*job));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      ProvidedNode node;
      // Not the host's name: a job on other hosts finds the folders that an earlier one has left in
      // a home on a file server.
      node.name = fmt::format("{}-{}", cluster_, i);
      node.table = fmt::format("name = {}\nlauncher = {}\n", toml_text(node.name),
                               toml_list(launcher_of(*job, hosts[i])));
      if (const std::int64_t left = seconds_of(job->left); left > 0)
        node.ends_at = std::chrono::steady_clock::now() + std::chrono::seconds(left);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  Status destroy(const ProviderWork& work) const override {
    const TimePoint deadline = std::chrono::steady_clock::now() + kCancelTimeout;
    std::set<std::string> cancelled;
    for (;;) {
      PADDLE_TRY(std::vector<Allocation> jobs, look(work));
      std::erase_if(jobs, &Allocation::has_ended);
      if (jobs.empty()) return {};
      for (const Allocation& job : jobs) {
        if (job.lives() && cancelled.insert(job.id).second) PADDLE_TRY_STATUS(cancel(job, work));
      }
      work.progress(fmt::format("job {} is ending", jobs.front().id));
      if (work.interrupted()) return Error{Errc::kInterrupted, "interrupted", ""};
      if (std::chrono::steady_clock::now() >= deadline) {
        return Error{Errc::kUnreachable,
                     fmt::format("job {} is still {}", jobs.front().id, jobs.front().state),
                     "scontrol show job " + jobs.front().id + " says what it waits for"};
      }
      work.pause(kQueueLook);
    }
  }

  std::string cause_of_loss(const std::string& /*node*/) const override { return cause_of_end(); }

  std::string cause_of_end() const override {
    const auto jobs = look({});
    if (!jobs || chosen(*jobs) != nullptr) return "";
    if (jobs->empty()) return "";
    return words_of_end(*std::ranges::max_element(*jobs, {}, &Allocation::number));
  }

 private:
  // The job that is used: of several, which two `up` at a time can submit, the first.
  static const Allocation* chosen(const std::vector<Allocation>& jobs) {
    const Allocation* first = nullptr;
    for (const Allocation& job : jobs) {
      if (job.lives() && (first == nullptr || job.number() < first->number())) first = &job;
    }
    return first;
  }

  static const Allocation* with_id(const std::vector<Allocation>& jobs, const std::string& id) {
    const auto found = std::ranges::find(jobs, id, &Allocation::id);
    return found == jobs.end() ? nullptr : &*found;
  }

  // All jobs of this user with the cluster's name. Slurm forgets those that have ended after some
  // minutes (MinJobAge).
  Result<std::vector<Allocation>> look(const ProviderWork& work) const {
    PADDLE_TRY(const ProgramEnd end,
               run_slurm({.arguments = {"squeue", "--me", "--name=" + job_, "--states=all",
                                        "--noheader", "--format=%i|%T|%D|%L|%N|%r"},
                          .timeout = kSlurmCallTimeout,
                          .interrupted = work.interrupted}));
    if (!end.ok()) return slurm_error(end, "squeue", "cannot list the jobs of Slurm");
    std::vector<Allocation> jobs;
    for (std::string_view line : output_lines(end.output)) {
      Allocation job;
      for (std::string* const field :
           {&job.id, &job.state, &job.node_count, &job.left, &job.hosts, &job.reason}) {
        *field = escape_control(line.substr(0, line.find('|')));
        line.remove_prefix(std::min(field->size() + 1, line.size()));
      }
      if (job.number() > 0) jobs.push_back(std::move(job));
    }
    return jobs;
  }

  std::vector<std::string> request() const {
    std::vector<std::string> words{"sbatch", "--job-name=" + job_,
                                   fmt::format("--nodes={}", keys_.nodes), "--ntasks-per-node=1"};
    const auto add = [&](const char* option, const std::string& value) {
      if (!value.empty()) words.push_back(fmt::format("{}={}", option, value));
    };
    add("--partition", keys_.partition);
    add("--time", keys_.time);
    add("--account", keys_.account);
    if (keys_.cpus > 0) {
      add("--cpus-per-task", std::to_string(keys_.cpus));
    } else {
      words.emplace_back("--exclusive");
    }
    add("--mem", keys_.memory.empty() && keys_.cpus == 0 ? "0" : keys_.memory);
    if (keys_.gpus > 0) add("--gpus-per-node", std::to_string(keys_.gpus));
    const std::int64_t seconds = keys_.time.empty() ? 10 * kSaveBeforeS : seconds_of(keys_.time);
    add("--signal", fmt::format("URG@{}", std::clamp(seconds / 10, kSaveBeforeMinS, kSaveBeforeS)));
    // Slurm would start the job again after the failure of a node, when its processes are gone.
    words.insert(words.end(), {"--no-requeue", "--chdir=/", "--output=/dev/null"});
    words.insert(words.end(), keys_.extra.begin(), keys_.extra.end());
    return words;
  }

  // Slurm keeps the environment of sbatch with the job, so it gets no more than it needs.
  ProgramCall submission(const std::vector<std::string>& more, const ProviderWork& work) const {
    constexpr std::string_view kNames[] = {
        "PATH=", "HOME=", "USER=", "LOGNAME=", "LANG=", "TZ=", "SLURM_CONF=", "SBATCH_"};
    std::vector<std::string> words{"env", "-i"};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const auto begins = [&](std::string_view name) {
        return std::string_view(*variable).starts_with(name);
      };
      if (std::ranges::any_of(kNames, begins)) words.emplace_back(*variable);
    }
    const std::vector<std::string> asked = request();
    words.insert(words.end(), asked.begin(), asked.end());
    words.insert(words.end(), more.begin(), more.end());
    const std::string script = fmt::format(
        "#!/bin/sh\nhold='{}'\nexec srun --overlap --nodes={} --ntasks={} --ntasks-per-node=1 "
        "--mem=0 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 --wait=0 {}/bin/sh -c \"$hold\"\n",
        kHold, keys_.nodes, keys_.nodes,
        keys_.cpus > 0 ? fmt::format("--cpus-per-task={} ", keys_.cpus) : "");
    return {.arguments = std::move(words),
            .input = script,
            .timeout = kSlurmCallTimeout,
            .interrupted = work.interrupted};
  }

  // The number of the new job.
  Result<std::string> submit(const ProviderWork& work) const {
    work.progress(fmt::format("asking Slurm for {}", describe()));
    // The call is not given up at Ctrl-C, so that the number of what was made is known.
    ProgramCall call = submission({"--parsable"}, work);
    call.interrupted = nullptr;
    PADDLE_TRY(const ProgramEnd end, run_slurm(call));
    if (!end.ok()) return slurm_error(end, "sbatch", "Slurm refuses the job");
    return end.output.substr(0, end.output.find_first_not_of("0123456789"));
  }

  Status cancel(const Allocation& job, const ProviderWork& work) const {
    PADDLE_TRY(const ProgramEnd end, run_slurm({.arguments = {"scancel", job.id},
                                                .timeout = kSlurmCallTimeout,
                                                .interrupted = work.interrupted}));
    if (end.ok()) return {};
    return slurm_error(end, "scancel", fmt::format("cannot cancel job {}", job.id));
  }

  // Two `up` at a time may both submit a job.
  Status cancel_later_ones(const std::vector<Allocation>& jobs, const Allocation* first,
                           const ProviderWork& work) const {
    for (const Allocation& job : jobs) {
      if (&job != first && job.lives()) PADDLE_TRY_STATUS(cancel(job, work));
    }
    return {};
  }

  Status check_size(const Allocation& job) const {
    if (job.node_count == std::to_string(keys_.nodes)) return {};
    return Error{
        Errc::kUsage,
        fmt::format("job {} has {} nodes, and the cluster file wants {}", job.id, job.node_count,
                    keys_.nodes),
        fmt::format("write nodes = {}, or give it back first: paddlectl teardown", job.node_count)};
  }

  Error still_waiting(const Allocation* job) const {
    if (job == nullptr) return {Errc::kUnreachable, "the job has not appeared in the queue", ""};
    return {Errc::kUnreachable, fmt::format("job {} still waits: {}", job->id, job->reason),
            fmt::format("it stays in the queue, and paddlectl up waits again; squeue --start "
                        "--job={} says when it may start",
                        job->id)};
  }

  // Takes back a job that would wait for ever, so that the next `up` submits the corrected one.
  Status withdraw(const Allocation& job, const ProviderWork& work) const {
    PADDLE_TRY_STATUS(cancel(job, work));
    return Error{
        Errc::kUsage,
        fmt::format("job {} would wait for ever: {}; it was withdrawn", job.id, job.reason),
        "scontrol show partition lists the limits; change [provider] and run paddlectl up"};
  }

  std::vector<std::string> step_of(const Allocation& job) const {
    return {"srun",    "--jobid=" + job.id, "--overlap",     "--mem=0",  "--gres=none",
            "--quiet", "--mpi=none",        "--export=NONE", "--chdir=/"};
  }

  // Without --unbuffered srun keeps output back until a line ends.
  std::vector<std::string> launcher_of(const Allocation& job, const std::string& host) const {
    std::vector<std::string> words = step_of(job);
    words.insert(words.end(), {"--nodes=1", "--ntasks=1", "--nodelist=" + host, "--unbuffered",
                               "/bin/sh", "-c", std::string(kEnter) + kThenShell});
    return words;
  }

  // Waits until each node accepts connections.
  Status await_hold(const Allocation& job, TimePoint deadline, const ProviderWork& work) const {
    work.progress(fmt::format("job {} runs on {}", job.id, job.hosts));
    ProgramCall call{.arguments = step_of(job), .interrupted = work.interrupted};
    const std::string count = std::to_string(keys_.nodes);
    for (const std::string& word :
         {"--nodes=" + count, "--ntasks=" + count, std::string("--ntasks-per-node=1"),
          std::string("/bin/sh"), std::string("-c"), std::string(kEnter)})
      call.arguments.push_back(word);
    call.timeout = std::max<Duration>(deadline - std::chrono::steady_clock::now(),
                                      std::chrono::seconds(kSlurmCallTimeout));
    PADDLE_TRY(const ProgramEnd end, run_slurm(call));
    if (end.ok()) return {};
    const std::string ended = cause_of_end();
    return Error{
        Errc::kFailed,
        ended.empty() ? fmt::format("job {} does not accept connections: {}", job.id,
                                    slurm_words(end, "srun"))
                      : ended,
        "for its messages add extra = [\"--output=/a/shared/folder/%j.log\"], and run paddlectl "
        "teardown and up"};
  }

  Result<std::vector<std::string>> hosts_of(const Allocation& job) const {
    PADDLE_TRY(const ProgramEnd end,
               run_slurm({.arguments = {"scontrol", "show", "hostnames", job.hosts},
                          .timeout = kSlurmCallTimeout}));
    if (!end.ok()) return slurm_error(end, "scontrol", "cannot list the nodes of the job");
    const auto lines = output_lines(end.output);
    return std::vector<std::string>(lines.begin(), lines.end());
  }

  SlurmKeys keys_;
  std::string cluster_;
  std::string job_;  // the name of its job in Slurm
};

}  // namespace

std::shared_ptr<const Provider> read_slurm_provider(config::TomlTable& table,
                                                    const ProvidedCluster& cluster) {
  return std::make_shared<SlurmProvider>(read_slurm_keys(table), cluster);
}

}  // namespace paddle::cli
