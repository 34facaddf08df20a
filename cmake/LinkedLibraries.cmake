# Each program can print the libraries that it contains, with their versions, to be compared with
# security advisories. The list is collected from what the program's targets link, so it is never
# older than the program. A library that is shared with the machine is not in it: base/version.cc
# names those that are loaded when the program runs.

# from_package(TARGET PACKAGE ... [CARRIED_IF PROPERTY]): the target is a library of these packages.
# Only a program that has the property contains it; without CARRIED_IF, all do. dpkg reports the
# version; without dpkg it is unknown.
function(from_package target)
  cmake_parse_arguments(ARG "" "CARRIED_IF" "" ${ARGN})
  foreach(package ${ARG_UNPARSED_ARGUMENTS})
    # A line for each architecture for which it is installed.
    execute_process(COMMAND dpkg-query -W -f "\${Version}\n" ${package} OUTPUT_VARIABLE version ERROR_QUIET RESULT_VARIABLE failed)
    string(REGEX REPLACE "\n.*" "" version "${version}")
    if(failed)
      set(version "of an unknown version")
    endif()
    set_property(TARGET ${target} APPEND PROPERTY PADDLE_PACKAGE "${package} ${version}")
  endforeach()
  set_property(TARGET ${target} PROPERTY PADDLE_CARRIED_IF ${ARG_CARRIED_IF})
endfunction()

# Appends all targets that a target links, and the target itself, to the list `found`.
function(collect_linked target found)
  set(all ${${found}})
  list(APPEND all ${target})
  set(linked)
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(value ${target} ${property})
    if(value)
      list(APPEND linked ${value})
    endif()
  endforeach()
  foreach(item ${linked})
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(TARGET ${item} AND NOT item IN_LIST all)
      collect_linked(${item} all)
    endif()
  endforeach()
  set(${found} ${all} PARENT_SCOPE)
endfunction()

# name_libraries(PROGRAM): adds a source with the program's list of libraries, which base/version.h
# declares. Call it when all targets are complete.
function(name_libraries program)
  set(targets)
  collect_linked(${program} targets)
  set(packages)
  foreach(target ${targets})
    get_target_property(package ${target} PADDLE_PACKAGE)
    get_target_property(carried_if ${target} PADDLE_CARRIED_IF)
    if(carried_if)
      get_target_property(carried ${program} ${carried_if})
    else()
      set(carried ON)
    endif()
    if(package AND carried)
      list(APPEND packages ${package})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES packages)
  list(SORT packages)
  list(JOIN packages "\\n" text)
  set(source ${PROJECT_BINARY_DIR}/libraries/${program}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT
       "#include \"base/version.h\"\n\nextern \"C\" const char paddle_linked_libraries[] = \"@text@\\n\";\n" @ONLY)
  target_sources(${program} PRIVATE ${source})
  set_property(GLOBAL APPEND PROPERTY PADDLE_PACKAGES ${packages})
endfunction()
