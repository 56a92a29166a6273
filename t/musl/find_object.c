// glibc has this function, by which gcc's unwinder finds the tables of an address; musl has not. Debian's libgcc is made
// for glibc.
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>

struct found {
    unsigned long long flags;
    void *start, *end, *link_map, *eh_frame;
    unsigned long long reserved[7];
};
struct search {
    ElfW(Addr) address;
    struct found *found;
};

static int holds(struct dl_phdr_info *object, size_t size, void *data) {
    struct search *search = data;
    void *eh_frame = NULL, *start = NULL, *end = NULL;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        ElfW(Addr) at = object->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_GNU_EH_FRAME)
            eh_frame = (void *)at;
        if (header->p_type == PT_LOAD && search->address >= at && search->address < at + header->p_memsz) {
            start = (void *)at;
            end = (void *)(at + header->p_memsz);
        }
    }
    if (!start || !eh_frame)
        return 0;
    search->found->flags = 0;
    search->found->start = start;
    search->found->end = end;
    search->found->link_map = NULL;
    search->found->eh_frame = eh_frame;
    return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void *address, struct found *found) {
    struct search search = {(ElfW(Addr))address, found};
    return dl_iterate_phdr(holds, &search) ? 0 : -1;
}
