// An intrusive doubly linked list: no allocation, and an element is removed in constant time.
#pragma once

namespace sliding_log {

/// Base class of elements, once for each kind of list that they can be in; Tag distinguishes the kinds. An element must
/// be removed from its lists before it is destroyed.
template <typename Tag>
class ListHook {
  public:
    ListHook() = default;
    ListHook(const ListHook&) = delete;
    ListHook& operator=(const ListHook&) = delete;

    bool isLinked() const { return next_ != this; }

    /// Leaves the list it is in, if any.
    void unlink() {
        previous_->next_ = next_;
        next_->previous_ = previous_;
        previous_ = next_ = this;
    }

  private:
    template <typename, typename>
    friend class List;

    ListHook* previous_ = this;
    ListHook* next_ = this;
};

template <typename Element, typename Tag>
class List {
  public:
    bool isEmpty() const { return !head_.isLinked(); }

    Element& back() { return static_cast<Element&>(*head_.previous_); }
    Element& front() { return static_cast<Element&>(*head_.next_); }

    void pushBack(Element& element) {
        ListHook<Tag>& hook = element;
        hook.previous_ = head_.previous_;
        hook.next_ = &head_;
        head_.previous_->next_ = &hook;
        head_.previous_ = &hook;
    }

    /// Inserts the element after all those that `less` does not order after it; for lists that are sorted by `less`,
    /// where it is usually the last.
    template <typename Less>
    void insertSorted(Element& element, Less less) {
        ListHook<Tag>* before = head_.previous_;
        while (before != &head_ && less(element, static_cast<Element&>(*before))) {
            before = before->previous_;
        }
        ListHook<Tag>& hook = element;
        hook.previous_ = before;
        hook.next_ = before->next_;
        before->next_->previous_ = &hook;
        before->next_ = &hook;
    }

    /// Calls visit(element) from first to last; it must not change the list.
    template <typename Visit>
    void forEach(Visit visit) {
        for (ListHook<Tag>* hook = head_.next_; hook != &head_; hook = hook->next_) {
            visit(static_cast<Element&>(*hook));
        }
    }

    /// Calls visit(element) from first to last until that is true; it must not change the list.
    template <typename Visit>
    void findFirst(Visit visit) {
        for (ListHook<Tag>* hook = head_.next_; hook != &head_ && !visit(static_cast<Element&>(*hook));) {
            hook = hook->next_;
        }
    }

    /// Removes the first element and returns it; nullptr if there is none.
    Element* popFront() {
        if (isEmpty()) {
            return nullptr;
        }
        Element& first = front();
        static_cast<ListHook<Tag>&>(first).unlink();
        return &first;
    }

    /// Appends all its elements to the other list.
    void moveTo(List& other) {
        while (Element* element = popFront()) {
            other.pushBack(*element);
        }
    }

  private:
    ListHook<Tag> head_;
};

}  // namespace sliding_log
