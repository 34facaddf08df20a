// How many logins this process has under way at one server. sshd drops connections at random once
// ten of them have not logged in yet (MaxStartups 10:30:100), which forty nodes behind one bastion
// reach at once.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace paddle::remote {

constexpr int kLoginsAtOnce = 8;  // at one server; below the ten of sshd, which notices an end late

// Held from before the connection until the login is done or given up.
using LoginTurn = std::shared_ptr<void>;

// Waits for a turn at the server, which `door` names. kUnreachable when the deadline passes first.
Result<LoginTurn> take_login_turn(const std::string& door, TimePoint deadline);

// A server that drops connections is tried again after these pauses, each shortened by up to half
// at random.
constexpr int kLoginTriesMax = 8;
Duration pause_before_login_try(int tries);

}  // namespace paddle::remote
