paddle_library(engine_client
  SOURCES clip.cc client_lane.cc client_lanes.cc client_plan.cc communicator.cc half_async_client.cc local_client.cc local_updates.cc sender.cc parameter_client.cc parameter_client_push.cc parameter_client_snapshot.cc
  LINK engine_param engine_net proto fmt_library)
