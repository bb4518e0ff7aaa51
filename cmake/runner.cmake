# blink_runner(NAME): the script NAME, made of NAME.in, for this build and to be installed. It finds the libraries in
# lib/blink, as @BLINK_LIBRARY_DIRECTORY@, from where it is itself, so that an installation can be moved.
function(blink_runner name)
  foreach(place IN ITEMS built installed)
    if(place STREQUAL built)
      set(bin ${PROJECT_BINARY_DIR}/bin)
      set(lib ${PROJECT_BINARY_DIR}/lib)
      set(output ${bin}/${name})
    else()
      set(bin ${CMAKE_INSTALL_FULL_BINDIR})
      set(lib ${CMAKE_INSTALL_FULL_LIBDIR})
      set(output ${CMAKE_CURRENT_BINARY_DIR}/installed/${name})
    endif()
    file(RELATIVE_PATH BLINK_LIBRARY_DIRECTORY ${bin} ${lib}/blink)
    configure_file(${name}.in ${output} @ONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
      WORLD_READ WORLD_EXECUTE)
  endforeach()
  install(PROGRAMS ${output} DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
