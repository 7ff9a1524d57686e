-- requires_grad_text(own, other): whether a tensor is trained, if the other side differs in that.
CREATE OR REPLACE MACRO requires_grad_text(own, other) AS
if(own <> other, ', requires_grad ' || own::VARCHAR, '')
