# The hiredis of programs without nginx: the static one of HIREDIS_DIR (packaging/hiredis), else the system's, which has
# TLS since 1.0. The folder sets OUT and OBJECTS, and links $(HIREDIS_LIBS).

ifneq ($(HIREDIS_DIR),)
CXXFLAGS += -I$(HIREDIS_DIR)/include -ffile-prefix-map=$(HIREDIS_DIR)=hiredis
HIREDIS_LIBS := $(HIREDIS_DIR)/lib/libhiredis_ssl.a $(HIREDIS_DIR)/lib/libhiredis.a
else
HIREDIS_LIBS := $(shell $(CXX) -E -include hiredis/hiredis_ssl.h -x c++ /dev/null >/dev/null 2>&1 && echo -lhiredis_ssl) -lhiredis
endif

# An object that was compiled with the headers of another one is compiled again.
$(OBJECTS): $(OUT)/hiredis
$(OUT)/hiredis: .FORCE
	@mkdir -p $(@D)
	@echo '$(HIREDIS_LIBS)' | cmp -s - $@ || echo '$(HIREDIS_LIBS)' >$@
.PHONY: .FORCE
