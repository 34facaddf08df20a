#include "remote/agent/process/claims.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "remote/agent/node/proc.h"
#include "remote/agent/process/key_files.h"
#include "remote/agent/process/record.h"

namespace paddle::agent {
namespace {

using wire::agent::JobClaim;

// The folder kClaims contains a folder for each job that is claimed, and that contains the claims
// and the file kOrder, which is locked while claims are compared.
constexpr const char* kClaims = "claims";
constexpr const char* kOrder = "order";
constexpr std::size_t kClaimBytesMax = 4096;
constexpr std::size_t kTextBytesMax = 200;
constexpr int kLookPeriodMs = 20;
// Claims are compared and written within milliseconds.
constexpr Duration kOrderWait = std::chrono::seconds(5);

TimePoint claim_time() {
  return std::chrono::steady_clock::now();
}

bool has_name(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

bool runs(const Record& record) {
  return !record.exit && supervisor_alive(record);
}

// The lock on the claims of a job: while this object exists, no other session compares or changes
// them.
class JobOrder {
 public:
  static Result<JobOrder> lock(const Root& root, const std::string& job, Duration wait) {
    PADDLE_TRY_STATUS(check_name(job));
    PADDLE_TRY(const SafePath path,
               SafePath::parse(std::string(kClaims) + "/" + job + "/" + kOrder));
    const TimePoint deadline = claim_time() + wait;
    for (;;) {
      auto entry = make_parent(root, path);
      UniqueFd file(entry ? ::openat(entry->folder.get(), kOrder,
                                     O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
                          : -1);
      const int error = errno;
      // ENOENT: the folder of the job was just removed.
      if (!file && (error != ENOENT || claim_time() >= deadline)) {
        errno = error;
        return entry ? system_error(Errc::kResource, "create " + path.str()) : entry.error();
      }
      // A lock on a file that has been removed protects nothing.
      if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && has_name(file.get()))
        return JobOrder(root, job, std::move(entry->folder), std::move(file));
      if (claim_time() >= deadline)
        return Error{Errc::kResource, "lock " + path.str() + ": another agent holds the lock", ""};
      ::poll(nullptr, 0, kLookPeriodMs);
    }
  }

  JobOrder(JobOrder&&) = default;
  JobOrder& operator=(JobOrder&&) = delete;
  ~JobOrder() {
    if (!file_) return;
    const auto names = names_of(folder_.get());
    if (!names || names->size() > 1) return;
    ::unlinkat(folder_.get(), kOrder, 0);
    const auto all = open_folder(*root_, kClaims);
    if (all) ::unlinkat(all->get(), job_.c_str(), AT_REMOVEDIR);
    ::unlinkat(root_->fd.get(), kClaims, AT_REMOVEDIR);  // if it is empty
  }

  int folder() const { return folder_.get(); }

 private:
  JobOrder(const Root& root, std::string job, UniqueFd folder, UniqueFd file)
      : root_(&root), job_(std::move(job)), folder_(std::move(folder)), file_(std::move(file)) {}

  const Root* root_;
  std::string job_;
  UniqueFd folder_, file_;
};

struct Found {
  std::string name;  // name of the claim's file
  JobClaim claim;
};

std::optional<JobClaim> read_claim(int file) {
  char text[kClaimBytesMax];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  JobClaim claim;
  if (got <= 0 || !claim.ParseFromArray(text, static_cast<int>(got))) return std::nullopt;
  return claim;
}

Status write_claim(int file, const JobClaim& claim) {
  const std::string text = claim.SerializeAsString();
  if (::ftruncate(file, 0) != 0) return system_error(Errc::kResource, "write a claim");
  if (!write_at(file, as_bytes(text), 0)) return system_error(Errc::kResource, "write a claim");
  return {};
}

// Returns the claims whose holder still runs and so has a lock on the file, except the one in the
// file `but`. `removes`: also removes the files of the claims whose holder has ended. REQUIRES for
// `removes`: the caller has the JobOrder.
std::vector<Found> held_claims(int folder, const std::string& but, bool removes) {
  std::vector<Found> found;
  const auto names = names_of(folder);
  if (!names) return found;
  for (const std::string& name : *names) {
    if (name == kOrder || name == but) continue;
    const UniqueFd file(
        ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) continue;
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
      if (removes) ::unlinkat(folder, name.c_str(), 0);
      continue;
    }
    if (auto claim = read_claim(file.get()); claim && job_command_of(claim->command()))
      found.push_back({name, *std::move(claim)});
  }
  return found;
}

JobCommand command_of(const JobClaim& claim) {
  return *job_command_of(claim.command());
}

std::string described(const JobClaim& claim) {
  return "paddlectl " + std::string(name_of(command_of(claim))) + " of " + claim.who();
}

// Writes the revoking command into the claim's file and removes its name; the holder keeps the file
// open.
void revoke(int folder, const Found& other, const JobClaim& by) {
  const UniqueFd file(
      ::openat(folder, other.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  JobClaim claim = other.claim;
  claim.set_revoked_by(described(by));
  if (file) (void)write_claim(file.get(), claim);
  ::unlinkat(folder, other.name.c_str(), 0);
}

Status check_processes(const Root& root, const wire::agent::ClaimRequest& request) {
  if (!request.fresh() && !request.idle()) return {};
  PADDLE_TRY(const auto records, read_records(root, request.job()));
  if (request.fresh() ? records.empty() : std::ranges::none_of(records, runs)) return {};
  if (request.fresh()) {
    return Error{Errc::kUsage, "a job named '" + request.job() + "' already exists",
                 "choose another --name"};
  }
  return Error{Errc::kUsage, "job " + request.job() + " still runs",
               "follow it: paddlectl attach --job " + request.job() +
                   "; or end it: paddlectl stop --job " + request.job()};
}

JobClaim bounded(JobClaim claim) {
  for (std::string* const text : {claim.mutable_who(), claim.mutable_phase()}) {
    if (text->size() > kTextBytesMax) text->resize(kTextBytesMax);
  }
  claim.clear_revoked_by();
  return claim;
}

// Creates the file of a claim of this agent and locks it.
Result<UniqueFd> make_claim(int folder, const std::string& name, const JobClaim& claim) {
  UniqueFd file(
      ::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error(Errc::kResource, "create a claim");
  Status made = write_claim(file.get(), claim);
  // claims_of() takes no JobOrder, so it may have the lock for a short time.
  while (made && ::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) made = system_error(Errc::kResource, "lock a claim");
  }
  if (made) return file;
  ::unlinkat(folder, name.c_str(), 0);
  return std::move(made).error();
}

std::string new_name() {
  static std::atomic<unsigned> number = 0;
  return std::to_string(::getpid()) + "-" + std::to_string(++number);
}

}  // namespace

Result<std::vector<JobClaim>> Claims::claim(const wire::agent::ClaimRequest& request,
                                            Duration wait) {
  const auto command = job_command_of(request.claim().command());
  if (!command) return Error{Errc::kData, "the claim names an unknown command", ""};
  if (!request.claim().process().empty()) PADDLE_TRY_STATUS(check_name(request.claim().process()));
  const TimePoint deadline = claim_time() + wait;
  std::vector<JobClaim> conflicts;
  do {
    if (!conflicts.empty()) ::poll(nullptr, 0, kLookPeriodMs);
    conflicts.clear();
    PADDLE_TRY(const JobOrder order, JobOrder::lock(root_, request.job(), kOrderWait));
    if (const Status valid = check(request.job()); !valid) {
      if (starts_processes(*command)) return valid.error();
      jobs_.erase(request.job());
    }
    const auto own = jobs_.find(request.job());
    const auto others =
        held_claims(order.folder(), own == jobs_.end() ? "" : own->second.name, true);
    bool is_refused = false;
    for (const Found& other : others) {
      const Order what = order_of(command_of(other.claim), *command);
      if (what != Order::kBeside && what != Order::kOver) conflicts.push_back(other.claim);
      is_refused = is_refused || what == Order::kRefuse;
    }
    if (is_refused) continue;
    // The caller shows the user what it waits for, and asks again.
    if (!conflicts.empty()) return conflicts;
    PADDLE_TRY_STATUS(check_processes(root_, request));
    const JobClaim claim = bounded(request.claim());
    if (own == jobs_.end()) {
      const std::string name = new_name();
      PADDLE_TRY(
          UniqueFd file,
          make_claim(order.folder(), name, claim).with(std::string(kClaims) + "/" + request.job()));
      jobs_.emplace(request.job(), Held{name, std::move(file), claim});
    } else {
      PADDLE_TRY_STATUS(write_claim(own->second.file.get(), claim));
      own->second.claim = claim;
    }
    for (const Found& other : others) {
      if (order_of(command_of(other.claim), *command) == Order::kOver)
        revoke(order.folder(), other, claim);
    }
    // Keys may be left over from a supervisor that was killed.
    if (request.fresh() || request.idle()) wipe_key_files(root_, request.job());
    return std::vector<JobClaim>();
  } while (claim_time() < deadline);
  return conflicts;
}

Status Claims::check(const std::string& job) const {
  const auto own = jobs_.find(job);
  if (own == jobs_.end() || has_name(own->second.file.get())) return {};
  const std::string by = revoker(job);
  return Error{Errc::kFailed,
               "job " + job + " was ended by " + (by.empty() ? "another command" : by),
               "check its state: paddlectl status --job " + job};
}

std::string Claims::revoker(const std::string& job) const {
  const auto own = jobs_.find(job);
  const auto claim =
      own == jobs_.end() ? std::optional<JobClaim>() : read_claim(own->second.file.get());
  return claim ? claim->revoked_by() : "";
}

bool Claims::may_start(const std::string& job) const {
  const auto own = jobs_.find(job);
  return own != jobs_.end() && starts_processes(command_of(own->second.claim)) && check(job);
}

Status Claims::start(const std::string& job, const std::function<Status()>& work,
                     const std::function<void()>& undo) const {
  PADDLE_TRY_STATUS(check(job));
  Status started = work();
  Status valid = check(job);
  if (valid) return started;
  undo();
  return valid;
}

std::string Claims::holder(const std::string& job) const {
  const auto own = jobs_.find(job);
  return own == jobs_.end() ? "" : described(own->second.claim);
}

bool Claims::follows(const std::string& job) const {
  const auto own = jobs_.find(job);
  return own == jobs_.end() || job_command_of(own->second.claim.command()) == JobCommand::kFinish;
}

namespace {

// If a process of another user has taken a name, the next of these names is used.
constexpr int kNamesOfAPort = 4;
constexpr int kClaimBacklog = 64;

// The first byte of sun_path stays 0: an abstract name, without a file. Empty when it is too long.
std::optional<std::pair<sockaddr_un, socklen_t>> abstract_name(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return std::pair(address,
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

// Listens on the name, so that the kernel reports the owner to each process that connects. Empty,
// with errno set, on failure.
UniqueFd listen_on_name(const std::string& name) {
  const auto address = abstract_name(name);
  if (!address) errno = ENAMETOOLONG;
  UniqueFd fd(address ? ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
  const bool listens =
      fd &&
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address->first), address->second) == 0 &&
      ::listen(fd.get(), kClaimBacklog) == 0;
  return listens ? std::move(fd) : UniqueFd();
}

// The inode of the socket that listens on the name; 0: none does. Each line of /proc/net/unix is
// a socket: number, references, protocol, flags, type, state, inode, "@" and the abstract name.
std::uint64_t inode_of_listener(const std::string& name) {
  std::ifstream lines("/proc/net/unix");
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with(name)) continue;
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, its_name;
    std::uint64_t inode = 0;
    fields >> number >> references >> protocol >> flags >> type >> state >> inode >> std::ws;
    std::getline(fields, its_name);
    constexpr std::string_view kListens = "00010000";
    if (flags == kListens && its_name == "@" + name) return inode;
  }
  return 0;
}

// The pid of our user's process that has the socket open; 0: none has.
pid_t owner_of_ours(std::uint64_t inode) {
  if (inode == 0) return 0;
  for (const ProcStat& process : own_processes()) {
    const auto sockets = sockets_of(process.pid);
    if (std::ranges::find(sockets, inode) != sockets.end()) return process.pid;
  }
  return 0;
}

// The pid of our user's process that has the name; 0: a process of another user has it, or none.
pid_t holder_of_ours(const std::string& name) {
  const auto address = abstract_name(name);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !fd) return 0;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address->first), address->second) !=
      0) {
    // The holder accepts no connection, so kClaimBacklog earlier ones leave no room for this one.
    return errno == EAGAIN ? owner_of_ours(inode_of_listener(name)) : 0;
  }
  ucred holder{};
  socklen_t size = sizeof holder;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &holder, &size) != 0) return 0;
  return holder.uid == ::geteuid() ? holder.pid : 0;
}

}  // namespace

// Any user may take any of these names for any time. A name that another user has taken is ignored,
// and the next name is used in its place; therefore a session that has got a name checks all the
// other names as well.
Result<std::string> Claims::port(const std::string& address, std::uint32_t port) {
  const std::string first = "paddlectl port " + address + ":" + std::to_string(port);
  if (ports_.size() == kPortsClaimedMax || ports_.contains(first)) return std::string();
  const auto name_of = [&](int i) { return i == 0 ? first : first + " " + std::to_string(i); };
  UniqueFd own;
  int mine = -1;
  for (int i = 0; i < kNamesOfAPort && !own; ++i) {
    own = listen_on_name(name_of(i));
    if (own) mine = i;
    if (!own && errno != EADDRINUSE)
      return system_error(Errc::kResource, "claim port " + std::to_string(port));
    if (!own && holder_of_ours(name_of(i)) != 0) break;
  }
  for (int i = 0; i < kNamesOfAPort; ++i) {
    const pid_t other = i == mine ? 0 : holder_of_ours(name_of(i));
    if (other != 0) return "paddlectl-agent, pid " + std::to_string(other);
  }
  if (own) ports_.emplace(first, std::move(own));
  return std::string();
}

void Claims::release() {
  while (!jobs_.empty()) release(std::string(jobs_.begin()->first));
  ports_.clear();
}

void Claims::release(const std::string& job) {
  const auto own = jobs_.find(job);
  if (own == jobs_.end()) return;
  // A claim whose file has no name was revoked, or the node was torn down: the keys may belong to
  // another session.
  const bool is_valid = has_name(own->second.file.get());
  const auto order = is_valid ? JobOrder::lock(root_, job, kOrderWait)
                              : Result<JobOrder>(Error{Errc::kFailed, "revoked", ""});
  if (order && has_name(own->second.file.get())) {
    if (starts_processes(command_of(own->second.claim))) {
      const auto records = read_records(root_, job);
      if (records && std::ranges::none_of(*records, runs)) wipe_key_files(root_, job);
      const auto all = open_folder(root_, "jobs");
      if (all && records && records->empty()) ::unlinkat(all->get(), job.c_str(), AT_REMOVEDIR);
    }
    ::unlinkat(order->folder(), own->second.name.c_str(), 0);
  }
  jobs_.erase(own);
}

std::vector<JobClaim> claims_of(const Root& root, const std::string& job) {
  std::vector<JobClaim> claims;
  const auto folder = open_folder(root, std::string(kClaims) + "/" + job);
  if (!folder) return claims;
  for (Found& found : held_claims(folder->get(), "", false))
    claims.push_back(std::move(found.claim));
  return claims;
}

bool has_starter(const std::vector<JobClaim>& claims) {
  return std::ranges::any_of(
      claims, [](const JobClaim& claim) { return starts_processes(command_of(claim)); });
}

void wipe_unneeded_keys(const Root& root, const std::string& job) {
  // On a disk that is full or fails, the lock cannot be taken; the keys are wiped nevertheless.
  const auto order = JobOrder::lock(root, job, kOrderWait);
  if (has_starter(claims_of(root, job))) return;
  const auto records = read_records(root, job);
  if (records && std::ranges::none_of(*records, runs)) wipe_key_files(root, job);
}

}  // namespace paddle::agent
