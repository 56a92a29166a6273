// A doubly linked list through its elements: no allocation, and an element leaves it in constant time.
#pragma once

namespace sliding_log {

/// What an element inherits, once per kind of list it can be in; Tag tells the kinds apart. An element must have
/// left its lists before it dies.
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

    /// Puts the element behind all those that `less` does not place after it; for lists that are sorted so, and where
    /// it usually goes last.
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

    /// Takes the first element out; nullptr when there is none.
    Element* popFront() {
        if (isEmpty()) {
            return nullptr;
        }
        Element& first = front();
        static_cast<ListHook<Tag>&>(first).unlink();
        return &first;
    }

    /// Appends all of it to the other list.
    void moveTo(List& other) {
        while (Element* element = popFront()) {
            other.pushBack(*element);
        }
    }

  private:
    ListHook<Tag> head_;
};

}  // namespace sliding_log
