#include "engine/trainer/loop.h"

namespace paddle::trainer {

Status Loop::run() {
  PADDLE_TRY_STATUS(test_.check_data());
  PADDLE_TRY_STATUS(client_.pull_dense(model_.dense()));
  if (options_.train.has_decisions()) end_.read_earlier_tests();
  PADDLE_TRY_STATUS(unfinished_.run());
  // A decision at the end of a pass may lower the number of passes.
  for (std::uint32_t pass = options_.start_pass; pass < pass_.progress().passes; ++pass) {
    PADDLE_TRY_STATUS(pass_.train(pass, unfinished_.start_of(pass)));
    PADDLE_TRY_STATUS(end_.run());
  }
  if (options_.train.passes == 0) PADDLE_TRY_STATUS(test_.run_at_end(pass_.progress()));
  // The other trainers stay until trainer 0 has tested: if it fails there, all repeat the pass.
  if (!unfinished_.has_passed_last_barrier()) PADDLE_TRY_STATUS(end_.barrier());
  if (options_.before_leave) options_.before_leave();
  return client_.leave();
}

}  // namespace paddle::trainer
