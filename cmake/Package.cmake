# A .deb and a tarball of what `cmake --install` writes; scripts/package makes them.
file(STRINGS base/version.h version REGEX kProgramVersion)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" CPACK_PACKAGE_VERSION "${version}")
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME paddlectl)
set(CPACK_PACKAGE_FILE_NAME paddlectl-${CPACK_PACKAGE_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CONTACT "the maintainers of paddlectl")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train on the Linux servers you have, with one file and one command")
set(CPACK_PACKAGE_DESCRIPTION
"paddlectl logs in to servers over SSH, brings a parameter server along,
trains models whose embeddings need not fit one machine, fetches the
result, and leaves nothing behind.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The dependencies are the shared libraries of paddlectl and the glibc of paddle-gpu; the other
# programs have none.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Some templates train on the text of bible-kjv; the Python module needs numpy.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion, bible-kjv, man-db, python3-numpy")
# What Python has compiled beside the module is in no package, so it is removed with the module.
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/prerm)
include(CPack)

# The copyright file contains our licence and those of all libraries that are linked statically.
set(copyright ${PROJECT_BINARY_DIR}/copyright)
configure_file(LICENSE ${copyright} COPYONLY)
get_property(packages GLOBAL PROPERTY PADDLE_PACKAGES)
list(TRANSFORM packages REPLACE " .*" "")
list(REMOVE_DUPLICATES packages)
list(SORT packages)
foreach(package ${packages})
  if(EXISTS /usr/share/doc/${package}/copyright)
    file(READ /usr/share/doc/${package}/copyright licence)
    file(APPEND ${copyright} "\n\n==== ${package} ====\n\n${licence}")
  endif()
endforeach()
install(FILES ${copyright} DESTINATION share/doc/paddlectl)
